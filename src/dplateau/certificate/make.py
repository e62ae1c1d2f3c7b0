"""``make_certificate``: from a report and a training, or from what somebody says of one."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, ClassVar, Final

from dplateau._account import Report, Row
from dplateau.accounting.enclosure import up
from dplateau.certificate.certificate import Certificate
from dplateau.certificate.outward import outward
from dplateau.certificate.parts import arithmetic_of
from dplateau.certificate.weights import weights_digest
from dplateau.certificate.words import uncertified
from dplateau.spec import Assumption, Estimator, Generator, InputError, Run, Runs, Training
from dplateau.spec.facts import member
from dplateau.spec.required import problems_of
from dplateau.spec.trained import Trained

DELTAS: Final = tuple(float(f"1e-{k}") for k in range(3, 13))
"""The public deltas of every certificate's curve, beside the chosen one."""


@dataclass(frozen=True)
class DeclaredTraining:
    """What somebody says of a training that ran elsewhere: the facts of ``Trained``, vouched for by the person who wrote them.

    Attributes
    ----------
    run : Run or Runs
        What was computed and released.
    assumptions : tuple of Assumption
        What the guarantee rests on, of ``dplateau.spec.assumption``; all declared by the caller, because nothing here enforced it.
    generator : Generator
        The source of the noise. It certifies only if its key is "operating-system".
    dtype : str, default "float64"
        Working precision.
    weights : tree of arrays, optional
        What was released. The certificate is bound to it.

    Raises
    ------
    InputError
        The generator or an assumption is no such value but, say, a sentence.
    """

    run: Run | Runs
    assumptions: tuple[Assumption, ...]
    generator: Generator
    dtype: str = "float64"
    weights: Any = None
    training: ClassVar[Training] = Training.DECLARED

    def __post_init__(self) -> None:
        if not isinstance(self.generator, Generator):
            raise InputError(
                f"generator is of type {type(self.generator).__name__}: expected dplateau.spec.Generator(algorithm, key), "
                "with a key of 'operating-system', 'fixed-seed' or 'not-cryptographic'."
            )
        if wrong := [type(one).__name__ for one in self.assumptions if not isinstance(one, Assumption)]:
            raise InputError(f"an assumption is of type {wrong[0]}: expected those of dplateau.spec.assumption.")


def make_certificate(report: Report, result: Trained, *, estimator: Estimator | str | None = None) -> Certificate:
    """Certify a training run, or several on the same records together.

    Parameters
    ----------
    report : Report
        What ``dplateau.account`` says of ``result.run``.
    result : TrainResult, NetworkResult, OpacusTraining or DeclaredTraining
        What ran, what was enforced, and what was released: the certificate is bound to these weights.
    estimator : {"classifier", "regressor"}, optional
        What the rows and targets were prepared for, where an estimator of dplateau trained.

    Raises
    ------
    UncertifiedError
        No ``Proved`` bound gives a finite epsilon.
    InputError
        The assumptions are not those of such a training: one is missing, or is said to be seen to by somebody who cannot have.
    ValueError
        The report is about another run.
    """
    if not isinstance(report, Report) or not hasattr(result, "assumptions"):
        raise InputError(
            f"make_certificate got {type(report).__name__} and {type(result).__name__}: expected first the report,"
            " account(result.run, delta), then the result of a training."
        )
    run = report.run
    if run != result.run:
        raise ValueError("the report is about another run than the result: call account(result.run, delta).")
    kind = None if estimator is None else member("estimator", Estimator, estimator)
    if wrong := problems_of(result.assumptions, result.training, run, result.generator, kind):
        raise InputError(f"the assumptions are not those of such a training: {'; '.join(wrong)}.")
    return _rounded(
        Certificate(
            **claim_of(report),
            training=result.training,
            assumptions=tuple(result.assumptions),
            generator=result.generator,
            arithmetic=arithmetic_of(result.dtype),
            estimator=kind,
            weights_sha256=None if result.weights is None else weights_digest(result.weights),
            schema_sha256=None,
            versions=_versions(),
        )
    )


def claim_of(report: Report) -> dict[str, Any]:
    """The fields of a certificate that follow from its run, with all digits; raises ``UncertifiedError`` where none is proved."""
    best = report.best
    if best is None or best.epsilon is None:
        raise uncertified(report.delta)
    deltas = sorted({*DELTAS, report.delta}, reverse=True)
    # Two bounds may have all but the same epsilon: the curve goes through the one that is claimed.
    points = {**dict(zip(deltas, report.profile(deltas), strict=True)), report.delta: best.epsilon}
    return {
        "epsilon": report.epsilon,
        "delta": report.delta,
        "enclosure": best.epsilon,
        "bound": best.name,
        "status": best.status,
        "source": best.source,
        "mu": report.mu,
        "curve": tuple(points.items()),
        "bounds": report.bounds,
        "run": report.run,
        "run_digest": report.run.digest,
    }


def _rounded(exact: Certificate) -> Certificate:
    """The certificate with numbers of eight digits."""
    return replace(
        exact,
        epsilon=up(exact.epsilon),
        enclosure=outward(exact.enclosure),
        mu=None if exact.mu is None else up(exact.mu),
        curve=tuple((delta, outward(epsilon)) for delta, epsilon in exact.curve),
        bounds=tuple(map(_recorded, exact.bounds)),
    )


def _recorded(row: Row) -> Row:
    """The row as JSON keeps it: without the mathematics, rounded, and with a reason in place of an infinite epsilon."""
    kept = row.to_dict()
    finite = row.epsilon if kept["epsilon"] is not None else None
    return replace(row, bound=None, epsilon=finite and outward(finite), why_not=kept["why_not"])


def _versions() -> tuple[tuple[str, str], ...]:
    libraries = ((name, version(name)) for name in ("numpy", "scipy", "jax"))
    return (("dplateau", version("dplateau")), ("python", platform.python_version()), *libraries)
