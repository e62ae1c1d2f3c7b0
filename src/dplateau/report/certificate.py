"""The certificate of a run: what it costs, by which argument, and what that rests on."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol

from dplateau.account import Report, account
from dplateau.report.files import write_text
from dplateau.spec import Assumption, InputError, Run

FORMAT: Final = "dplateau-certificate-1"
DELTAS: Final = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)
"""Where the curve epsilon(delta) is tabulated, besides the chosen delta."""
INSECURE: Final = "a fixed seed was used, so the noise can be reproduced: nothing is certified"


class Trained(Protocol):
    """What a certificate needs to know of a training result."""

    @property
    def run(self) -> Run: ...
    @property
    def assumptions(self) -> Sequence[Assumption]: ...
    @property
    def generator(self) -> str: ...
    @property
    def dtype(self) -> str: ...


@dataclass(frozen=True)
class Certificate:
    """A run's guarantee as plain data, ready to be stored, checked and recomputed.

    Attributes
    ----------
    run : Run
        What was computed and released.
    content : dict
        Everything else, as ``certificate.schema.json`` describes it. Neither a seed nor data are in it.
    """

    run: Run
    content: dict[str, Any]

    @property
    def epsilon(self) -> float:
        """The certified epsilon."""
        return float(self.content["epsilon"])

    @property
    def delta(self) -> float:
        """The delta it belongs to."""
        return float(self.content["delta"])

    @property
    def insecure(self) -> bool:
        """Whether a fixed seed voids the guarantee."""
        return bool(self.content["insecure_seed"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"format": FORMAT, **self.content, "run": self.run.to_dict(), "run_sha256": self.run.digest}

    def to_json(self) -> str:
        """JSON text, indented, numbers exact."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def write(self, path: str | Path) -> None:
        """Write the JSON to a file, whole or not at all."""
        write_text(Path(path), self.to_json())

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate that ``to_json`` wrote; raises ``InputError`` on anything else."""
        try:
            data = json.loads(text)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"the certificate is not JSON: {error}.") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(f"this is no certificate: expected a JSON object with format {FORMAT!r}.")
        if missing := sorted({"epsilon", "delta", "bounds", "insecure_seed", "assumptions", "run", "run_sha256"} - set(data)):
            raise InputError(f"the certificate lacks the fields {missing}.")
        for name in ("epsilon", "delta"):
            if isinstance(data[name], bool) or not isinstance(data[name], (int, float)) or not math.isfinite(data[name]):
                raise InputError(f"the certificate's {name} is no finite number.")
        run = Run.from_dict(data["run"])
        if data["run_sha256"] != run.digest:
            raise InputError("the certificate's run does not match its digest: the file was changed.")
        return cls(run, {key: value for key, value in data.items() if key not in ("format", "run", "run_sha256")})


def make_certificate(report: Report, result: Trained) -> Certificate:
    """The certificate of a trained model.

    Parameters
    ----------
    report : Report
        ``account(result.run, delta)``.
    result : TrainResult
        What training released, with its assumptions.

    Raises
    ------
    InputError
        The report is about another run, or has no finite proved bound.
    """
    if report.run != result.run:
        raise InputError("the report is about another run than the one that was trained: account for result.run.")
    best = report.best
    if best is None:
        raise InputError("no proved bound gives this run a finite epsilon, so there is nothing to certify.")
    curve = zip(DELTAS, report.profile(DELTAS), strict=True)
    versions = {"dplateau": _version("dplateau"), "python": platform.python_version()}
    versions |= {name: _version(name) for name in ("numpy", "scipy", "jax")}
    content = {
        "epsilon": report.epsilon,
        "delta": report.delta,
        "enclosure": best.to_dict()["enclosure"],
        "mu": report.mu,
        "status": best.status,
        "bound": best.name,
        "source": best.source,
        "adjacency": result.run.adjacency,
        "sampling": result.run.sampling.kind,
        "released": result.run.released,
        "curve": [{"delta": delta, "epsilon": [e.lower, e.upper]} for delta, e in curve if math.isfinite(e.upper)],
        "bounds": [row.to_dict() for row in report.bounds],
        "assumptions": [assumption.to_dict() for assumption in result.assumptions],
        "generator": result.generator,
        "insecure_seed": "insecure" in result.generator,
        "dtype": result.dtype,
        "versions": versions,
    }
    return Certificate(result.run, content)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Verdict:
    """What recomputing a certificate found.

    Attributes
    ----------
    agrees : bool
        Whether the certificate's epsilon is certified again.
    claimed, recomputed : float
        Both numbers, at the certificate's delta.
    reason : str
        One sentence.
    """

    agrees: bool
    claimed: float
    recomputed: float
    reason: str


def verify(certificate: Certificate) -> Verdict:
    """Recompute a certificate from its run. It agrees if its epsilon is no smaller than the one certified now (up to 1e-6)."""
    report = account(certificate.run, certificate.delta)
    claimed, recomputed = certificate.epsilon, report.epsilon
    if certificate.insecure:
        return Verdict(False, claimed, recomputed, INSECURE)
    if claimed < recomputed - 1e-6 * max(1.0, recomputed):
        return Verdict(False, claimed, recomputed, "the certificate claims less than can be certified")
    facts = {
        "adjacency": certificate.run.adjacency,
        "sampling": certificate.run.sampling.kind,
        "released": certificate.run.released,
    }
    if wrong := [name for name, value in facts.items() if certificate.content.get(name) != value]:
        raise InputError(f"the certificate contradicts its own run about {', '.join(wrong)}: the file was changed.")
    return Verdict(True, claimed, recomputed, "the certificate's epsilon is certified again")
