"""``Certificate``: what a release costs, and everything that this rests on."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from dplateau._account import Report, Row
from dplateau.accounting import Enclosure
from dplateau.report.files import write_file
from dplateau.report.outward import outward, up
from dplateau.report.statement import statement
from dplateau.report.weights import weights_digest
from dplateau.spec import Assumption, Estimator, Generator, InputError, Run, Runs, Training, UncertifiedError
from dplateau.spec.facts import VOID, member
from dplateau.spec.required import problems_of

if TYPE_CHECKING:
    from dplateau.report.format_1 import Stated

KIND: Final = "dplateau certificate"
FORMAT: Final = 2
DELTAS: Final = tuple(float(f"1e-{k}") for k in range(3, 13))
"""The public deltas of every certificate's curve, beside the chosen one."""
OLD: Final = (
    "This certificate has format 1. It was made before the sums of a training were exact: what it says of clipping held up to the"
    " rounding of sums, which could be large for many rows in an order that somebody chose.",
    "It does not say which weights it is about, and its assumptions are sentences that nobody can check.",
)
"""What certificates of format 1 cannot know."""
UNBOUND: Final = "It does not say which weights it is about: nobody gave them to whoever made it."
PRECISIONS: Final = ("bfloat16", "float16", "float32", "float64")


class Trained(Protocol):
    """The facts of a training result that a certificate records.

    ``dplateau.training.TrainResult`` has them, so has ``dplateau.interchange.opacus_training.OpacusTraining``, and
    ``DeclaredTraining`` holds them for any other loop.
    """

    @property
    def run(self) -> Run | Runs:
        """The run, or the several ones, that were fulfilled."""
        ...

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was enforced, and what is taken on trust."""
        ...

    @property
    def generator(self) -> Generator:
        """The source of randomness."""
        ...

    @property
    def dtype(self) -> str:
        """Working precision; several ones with commas between them."""
        ...

    @property
    def training(self) -> Training:
        """What kind of training it was."""
        ...

    @property
    def weights(self) -> Any:
        """What was released, a tree of arrays; None where it is not at hand."""
        ...


@dataclass(frozen=True)
class DeclaredTraining:
    """What somebody says of a training that ran elsewhere: the facts of ``Trained``, vouched for by whoever writes them down.

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


@dataclass(frozen=True, repr=False)
class Certificate:
    """A release's privacy: what is claimed, and what it rests on. It holds no data and no seed.

    Attributes
    ----------
    epsilon, delta : float
        The claim: the upper end of the least ``Proved`` bound, at the chosen delta. Computed numbers have eight digits: upper ends
        are rounded up, lower ends down.
    enclosure : Enclosure
        Where that bound's epsilon lies.
    bound, status, source : str
        The bound's name, how far it may be trusted, and where its proof is.
    mu : float or None
        mu, where the bound is a mu-GDP statement.
    curve : tuple of (float, Enclosure)
        Deltas from a fixed public list, and the least proved epsilon at each.
    bounds : tuple of Row
        Every analysis: its epsilon, or why it does not apply.
    training : Training or None
        What kind of training it was. None in format 1, which does not say.
    assumptions : tuple of Assumption
        Each says how it came to hold, and by whom. In format 1 they are sentences.
    generator : Generator
        The source of the noise and of the batches.
    arithmetic : str
        Working precision of the training.
    estimator : Estimator or None
        What rows and targets were prepared for, where an estimator of dplateau trained.
    weights_sha256 : str or None
        Digest of the released weights, see ``weights_digest``. None where nobody gave them.
    schema_sha256 : str or None
        Digest of the public schema that rows were encoded by, where there is one.
    versions : tuple of (str, str)
        Software, and its version.
    run : Run or Runs
        What was computed and released.
    run_digest : str
        ``run.digest``, as it was when the certificate was made.
    format : int
        2, or 1 for a file that was made before.
    """

    epsilon: float
    delta: float
    enclosure: Enclosure
    bound: str
    status: str
    source: str
    mu: float | None
    curve: tuple[tuple[float, Enclosure], ...]
    bounds: tuple[Row, ...]
    training: Training | None
    assumptions: tuple[Assumption | Stated, ...]
    generator: Generator
    arithmetic: str
    estimator: Estimator | None
    weights_sha256: str | None
    schema_sha256: str | None
    versions: tuple[tuple[str, str], ...]
    run: Run | Runs
    run_digest: str
    format: int = FORMAT

    @property
    def certifies(self) -> bool:
        """Whether the claim may be relied on: a ``Proved`` bound, and nothing that voids it."""
        return self.status == "Proved" and self.void is None

    @property
    def void(self) -> str | None:
        """Why the certificate certifies nothing, however right its numbers are; None where nothing voids it."""
        if not self.generator.secure:
            return VOID[self.generator.key]
        return next((one.void for one in self.assumptions if one.void), None)

    @property
    def insecure_seed(self) -> bool:
        """Whether somebody may compute the noise."""
        return not self.generator.secure

    @property
    def statement(self) -> str:
        """What is protected, in plain language."""
        without = "Otherwise" if self.generator.secure else "With secret noise"
        return statement(self.run, self.epsilon, self.delta, self.mu, self.void, without)

    @property
    def problems(self) -> list[str]:
        """What is wrong with the assumptions: such a training has others. Of format 1 nobody can tell."""
        if self.training is None:
            return []
        facts = [one for one in self.assumptions if isinstance(one, Assumption)]
        return problems_of(facts, self.training, self.run, self.generator, self.estimator)

    @property
    def gaps(self) -> tuple[str, ...]:
        """What this certificate cannot know and others can, in sentences."""
        if self.format == 1:
            return OLD
        return () if self.weights_sha256 else (UNBOUND,)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, as ``certificate.schema.json`` describes it."""
        from dplateau.report import format_1

        claim = {
            "kind": KIND,
            "format": self.format,
            "certified": self.certifies,
            "statement": self.statement,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "enclosure": pair(self.enclosure),
            "bound": self.bound,
            "status": self.status,
            "source": self.source,
            "mu": self.mu,
            "curve": [{"delta": delta, "epsilon": pair(epsilon)} for delta, epsilon in self.curve],
            "bounds": [row.to_dict() for row in self.bounds],
            "adjacency": self.run.adjacency,
            "sampling": (
                [run.sampling.to_dict() for run in self.run.runs] if isinstance(self.run, Runs) else self.run.sampling.to_dict()
            ),
            "released": self.run.released,
        }
        facts: dict[str, Any] = (
            format_1.facts(self)
            if self.training is None
            else {
                "training": self.training.value,
                "assumptions": [assumption.to_dict() for assumption in self.assumptions],
                "generator": self.generator.to_dict(),
                "model": {
                    "estimator": self.estimator and self.estimator.value,
                    "weights_sha256": self.weights_sha256,
                    "schema_sha256": self.schema_sha256,
                },
            }
        )
        rest = {
            "arithmetic": self.arithmetic,
            "versions": dict(self.versions),
            "run": self.run.to_dict(),
            "run_digest": self.run_digest,
        }
        return claim | facts | rest

    def to_json(self) -> str:
        """JSON text, numbers exact."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate that ``to_json`` wrote.

        What it says is not recomputed: ``dplateau.report.verify`` does that.

        Raises
        ------
        InputError
            The text is not JSON, or not a certificate.
        """
        from dplateau.report.certificate_json import certificate_from_json

        return certificate_from_json(text)

    def write(self, path: str | Path) -> None:
        """Write the JSON file, whole or not at all; raises ``InputError`` where that is not possible."""
        write_file(path, self.to_json())

    def __str__(self) -> str:
        """The certificate as plain text, 80 columns wide."""
        from dplateau.report.text import as_text, certificate_text

        return as_text(certificate_text(self))

    def __repr__(self) -> str:
        what = "" if self.certifies else ", certifies nothing"
        return f"<Certificate: epsilon {self.epsilon:.6g} at delta {self.delta:g}, {self.status}{what}>"


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
    run = report.run
    if run != result.run:
        raise ValueError("the report is about another run than the result: call account(result.run, delta).")
    kind = None if estimator is None else member("estimator", Estimator, estimator)
    if wrong := problems_of(result.assumptions, result.training, run, result.generator, kind):
        raise InputError(f"the assumptions are not those of such a training: {'; '.join(wrong)}.")
    best, enclosure, curve = best_of(report)
    return Certificate(
        epsilon=up(report.epsilon),
        delta=report.delta,
        enclosure=outward(enclosure),
        bound=best.name,
        status=best.status,
        source=best.source,
        mu=None if report.mu is None else up(report.mu),
        curve=tuple((delta, outward(epsilon)) for delta, epsilon in curve),
        bounds=tuple(_recorded(row) for row in report.bounds),
        training=result.training,
        assumptions=tuple(result.assumptions),
        generator=result.generator,
        arithmetic=checked_arithmetic(result.dtype),
        estimator=kind,
        weights_sha256=None if result.weights is None else weights_digest(result.weights),
        schema_sha256=None,
        versions=_versions(),
        run=run,
        run_digest=run.digest,
    )


def best_of(report: Report) -> tuple[Row, Enclosure, list[tuple[float, Enclosure]]]:
    """The least proved bound, its epsilon, and the curve; raises ``UncertifiedError`` where there is no finite one."""
    best = report.best
    if best is None or best.epsilon is None:
        raise UncertifiedError(
            f"no proved bound gives a finite epsilon at delta {report.delta:g}: raise delta or the noise multiplier."
        )
    deltas = sorted({*DELTAS, report.delta}, reverse=True)
    # Two bounds may have all but the same epsilon: the curve goes through the one that is claimed.
    points = {**dict(zip(deltas, report.profile(deltas), strict=True)), report.delta: best.epsilon}
    return best, best.epsilon, list(points.items())


def checked_arithmetic(text: str) -> str:
    """``text``, if it names floating-point types."""
    if not text or set(text.split(", ")) - set(PRECISIONS):
        raise InputError(f"arithmetic is none of {', '.join(PRECISIONS)}, nor several of them with commas between.")
    return text


def _recorded(row: Row) -> Row:
    """The row as JSON keeps it: without the mathematics, rounded, and with a reason in place of an infinite epsilon."""
    kept = row.to_dict()
    finite = row.epsilon if kept["epsilon"] is not None else None
    return replace(row, bound=None, epsilon=finite and outward(finite), why_not=kept["why_not"])


def _versions() -> tuple[tuple[str, str], ...]:
    installed = {name: version(name) for name in ("dplateau", "numpy", "scipy", "jax")}
    return (("dplateau", installed.pop("dplateau")), ("python", platform.python_version()), *installed.items())


def pair(enclosure: Enclosure) -> list[float | None]:
    """Both ends; None for an infinite one."""
    return [end if end < float("inf") else None for end in (enclosure.lower, enclosure.upper)]
