"""``Certificate``: what a release costs, and everything that this rests on."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol

from dplateau.account import Report, Row
from dplateau.accounting import Enclosure
from dplateau.report.files import write_file
from dplateau.report.statement import statement
from dplateau.spec import Assumption, Run, Runs, UncertifiedError

KIND: Final = "dplateau certificate"
FORMAT: Final = 1
DELTAS: Final = tuple(float(f"1e-{k}") for k in range(3, 13))
"""The public deltas of every certificate's curve, beside the chosen one."""
SECRET_KEY: Final = "key from the operating system"
"""How the name of a generator ends whose noise nobody can recompute. Any other is taken for one with a fixed seed."""
NOT_CRYPTOGRAPHIC: Final = "not cryptographic"
"""How the name of a generator ends that had no fixed seed, but whose state can be computed from what it gave."""


class Trained(Protocol):
    """The facts of a training result that a certificate records.

    ``dplateau.training.TrainResult`` has them, so has ``dplateau.interchange.opacus_training.OpacusTraining``, and ``Testimony``
    holds them for any other loop.
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
    def generator(self) -> str:
        """The source of randomness."""
        ...

    @property
    def dtype(self) -> str:
        """Working precision."""
        ...


@dataclass(frozen=True)
class Testimony:
    """What somebody says of a training that ran elsewhere: the facts of ``Trained``, vouched for by whoever writes them down.

    Attributes
    ----------
    run : Run or Runs
        What was computed and released.
    assumptions : tuple of Assumption
        What the guarantee rests on; "declared", where nothing here enforced it.
    generator : str
        The source of the noise. It certifies only if it ends with ``SECRET_KEY``: "..., key from the operating system".
    dtype : str, default "float64"
        Working precision.
    """

    run: Run | Runs
    assumptions: tuple[Assumption, ...]
    generator: str
    dtype: str = "float64"


@dataclass(frozen=True, repr=False)
class Certificate:
    """A release's privacy: what is claimed, and what it rests on. It holds no data and no seed.

    Attributes
    ----------
    epsilon, delta : float
        The claim: the upper end of the least ``Proved`` bound, at the chosen delta.
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
    assumptions : tuple of Assumption
        Each says whether it was enforced, declared or derived.
    generator : str
        The source of the noise and of the batches.
    insecure_seed : bool
        Whether it was seeded, or is not cryptographic. The certificate then certifies nothing.
    arithmetic : str
        Working precision of the training.
    versions : tuple of (str, str)
        Software, and its version.
    run : Run or Runs
        What was computed and released.
    run_digest : str
        ``run.digest``, as it was when the certificate was made.
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
    assumptions: tuple[Assumption, ...]
    generator: str
    insecure_seed: bool
    arithmetic: str
    versions: tuple[tuple[str, str], ...]
    run: Run | Runs
    run_digest: str

    @property
    def certifies(self) -> bool:
        """Whether the claim may be relied on: a ``Proved`` bound, and noise that nobody can recompute."""
        return self.status == "Proved" and not self.insecure_seed and self.generator.endswith(SECRET_KEY)

    @property
    def statement(self) -> str:
        """What is protected, in plain language."""
        return statement(self.run, self.epsilon, self.delta, self.mu, self.certifies, seeded=self.seeded)

    @property
    def seeded(self) -> bool:
        """Whether the noise came from a fixed seed, or has to be taken for such noise."""
        return not self.generator.endswith((SECRET_KEY, NOT_CRYPTOGRAPHIC))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, as ``certificate.schema.json`` describes it."""
        return {
            "kind": KIND,
            "format": FORMAT,
            "certified": self.certifies,
            "statement": self.statement,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "enclosure": _pair(self.enclosure),
            "bound": self.bound,
            "status": self.status,
            "source": self.source,
            "mu": self.mu,
            "curve": [{"delta": delta, "epsilon": _pair(epsilon)} for delta, epsilon in self.curve],
            "bounds": [row.to_dict() for row in self.bounds],
            "adjacency": self.run.adjacency,
            "sampling": (
                [run.sampling.to_dict() for run in self.run.runs] if isinstance(self.run, Runs) else self.run.sampling.to_dict()
            ),
            "released": self.run.released,
            "assumptions": [assumption.to_dict() for assumption in self.assumptions],
            "generator": self.generator,
            "insecure_seed": self.insecure_seed,
            "arithmetic": self.arithmetic,
            "versions": dict(self.versions),
            "run": self.run.to_dict(),
            "run_digest": self.run_digest,
        }

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


def make_certificate(report: Report, result: Trained) -> Certificate:
    """Certify a training run, or several on the same records together.

    Parameters
    ----------
    report : Report
        What ``dplateau.account`` says of ``result.run``.
    result : TrainResult, OpacusTraining or Testimony
        What ran, and what was enforced.

    Raises
    ------
    UncertifiedError
        No ``Proved`` bound gives a finite epsilon.
    ValueError
        The report is about another run.
    """
    run = report.run
    if run != result.run:
        raise ValueError("the report is about another run than the result: call account(result.run, delta).")
    best = report.best
    if best is None or best.epsilon is None:
        raise UncertifiedError(
            f"no proved bound gives a finite epsilon at delta {report.delta:g}: raise delta or the noise multiplier."
        )
    deltas = sorted({*DELTAS, report.delta}, reverse=True)
    return Certificate(
        epsilon=report.epsilon,
        delta=report.delta,
        enclosure=best.epsilon,
        bound=best.name,
        status=best.status,
        source=best.source,
        mu=report.mu,
        curve=tuple(zip(deltas, report.profile(deltas), strict=True)),
        bounds=tuple(_recorded(row) for row in report.bounds),
        assumptions=tuple(result.assumptions),
        generator=result.generator,
        insecure_seed=not result.generator.endswith(SECRET_KEY),
        arithmetic=result.dtype,
        versions=_versions(),
        run=run,
        run_digest=run.digest,
    )


def _recorded(row: Row) -> Row:
    """The row as JSON keeps it: without the mathematics, and with a reason in place of an infinite epsilon."""
    kept = row.to_dict()
    return replace(row, bound=None, epsilon=None if kept["epsilon"] is None else row.epsilon, why_not=kept["why_not"])


def _versions() -> tuple[tuple[str, str], ...]:
    installed = {name: version(name) for name in ("dplateau", "numpy", "scipy", "jax")}
    return (("dplateau", installed.pop("dplateau")), ("python", platform.python_version()), *installed.items())


def _pair(enclosure: Enclosure) -> list[float | None]:
    """Both ends; None for an infinite one."""
    return [end if end < float("inf") else None for end in (enclosure.lower, enclosure.upper)]
