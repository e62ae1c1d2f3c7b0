"""``Certificate``: what a release costs, and everything that this rests on."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from dplateau._account import Row
from dplateau.accounting import Enclosure
from dplateau.accounting.enclosure import rounded_up
from dplateau.certificate.fields import FORMAT, KIND, LABELLED, fields_of
from dplateau.certificate.format_1 import Stated
from dplateau.certificate.label import Label
from dplateau.certificate.parts import pair
from dplateau.certificate.plain import columns, paragraph
from dplateau.certificate.words import by_whom, run_facts, statement, statement_of_format_1, void_statement
from dplateau.files import write_file
from dplateau.spec import Assumption, ContradictionError, Estimator, Generator, InputError, Run, Runs, Training
from dplateau.spec.facts import VOID, Key
from dplateau.spec.promise import weakness
from dplateau.spec.required import problems_of
from dplateau.spec.strict_json import same, strict_json

OLD: Final = (
    "This certificate has format 1. It was made before the sums of a training were exact: what it says of clipping held up to the"
    " rounding of sums, which could be large for many rows in an order that somebody chose.",
    "It does not say which weights it is about, and its assumptions are sentences that nobody can check.",
)
"""What certificates of format 1 cannot know."""
SHOWN: Final = (1e-4, 1e-6, 1e-8, 1e-10)
"""Deltas of the curve that are printed."""
BRIEFLY: Final = {Key.FIXED_SEED: ": fixed seed", Key.NOT_CRYPTOGRAPHIC: ": guessable noise"}
UNBOUND: Final = "It does not say which weights it is about: nobody gave them to the person who made it."


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
        2, 3 with a label, or 1 for a file that was made before.
    label : Label or None
        What the release is called, by the person who made it.
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
    label: Label | None = None

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
        if self.void is not None:
            # Format 1 rounds to the nearest.
            shown = f"{self.epsilon:.6g}" if self.format == 1 else rounded_up(self.epsilon)
            return void_statement(shown, self.delta, self.void, "Otherwise" if self.generator.secure else "With secret noise")
        said = statement_of_format_1 if self.format == 1 else statement
        return said(self.run, self.epsilon, self.delta, self.mu)

    @property
    def weak(self) -> str | None:
        """That it promises little, however well it is proved; None where epsilon is at most 10, or nothing is certified."""
        return weakness(self.epsilon) if self.certifies else None

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

    @property
    def standing(self) -> str:
        """How far it may be trusted, in a few words."""
        return self.status if self.certifies else f"certifies nothing{BRIEFLY.get(self.generator.key, '')}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What ran and what is claimed, in words: names, and what stands beside them."""
        points = ((delta, epsilon.upper) for delta, epsilon in self.curve if delta in SHOWN)
        return [
            *(self.label.facts if self.label else ()),
            *run_facts(self.run),
            ("generator", str(self.generator)),
            (
                "bound",
                f"{self.bound}, enclosed to {rounded_up(self.enclosure.upper - self.enclosure.lower, 1)}; {self.source}",
            ),
            *([] if self.mu is None else [("Gaussian DP", f"mu = {rounded_up(self.mu)}")]),
            ("other deltas", ", ".join(f"{rounded_up(epsilon, 4)} at {delta:.0e}" for delta, epsilon in points)),
            ("digest", f"{self.run_digest[:16]}, of the run"),
            *self.model_facts,
            ("made with", ", ".join(f"{name} {version}" for name, version in self.versions)),
        ]

    @property
    def model_facts(self) -> list[tuple[str, str]]:
        """The digests of the model that it is about."""
        what = (
            ("weights", self.weights_sha256, "the numbers that were released: it is about no others"),
            ("schema", self.schema_sha256, "what turned rows into features"),
        )
        return [(name, f"sha256 {digest[:16]}..., {meaning}") for name, digest, meaning in what if digest is not None]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, as ``certificate.schema.json`` describes it."""
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
        assumptions = [one.to_dict() for one in self.assumptions]
        facts: dict[str, Any] = (
            {"assumptions": assumptions, "generator": str(self.generator), "insecure_seed": self.insecure_seed}
            if self.training is None
            else {
                "training": self.training.value,
                "assumptions": assumptions,
                "generator": self.generator.to_dict(),
                "model": {
                    "estimator": self.estimator and self.estimator.value,
                    "weights_sha256": self.weights_sha256,
                    "schema_sha256": self.schema_sha256,
                },
            }
        )
        label = {} if self.label is None else {"label": self.label.to_dict()}
        rest = {
            "arithmetic": self.arithmetic,
            "versions": dict(self.versions),
            "run": self.run.to_dict(),
            "run_digest": self.run_digest,
        }
        return claim | facts | label | rest

    def to_json(self) -> str:
        """JSON text, numbers exact."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate that ``to_json`` wrote.

        What it says is not recomputed: ``dplateau.certificate.verify`` does that.

        Raises
        ------
        InputError
            The text is not JSON, or not a certificate.
        ContradictionError
            It contradicts itself.
        """
        data = strict_json(text)
        certificate = cls(**fields_of(data))
        certificate._check(data)
        return certificate

    def _check(self, data: dict[str, Any]) -> None:
        """Raise ``ContradictionError`` unless it says what ``data`` says, of such a training, with a claim that is one."""
        repeated = self.to_dict()
        kept = data if self.format != 1 else data.keys() - {"generator"}  # In format 1 any text may stand there.
        if wrong := sorted(key for key in kept if not same(data[key], repeated[key])):
            raise ContradictionError(
                f"the certificate contradicts itself: its other entries give another {' and another '.join(wrong)}."
            )
        if self.problems:
            raise ContradictionError(f"the certificate's assumptions are not those of such a training: {'; '.join(self.problems)}.")
        for what, found in (
            ("delta of its curve", [delta for delta, _ in self.curve]),
            ("bound", [row.name for row in self.bounds]),
        ):
            if len(set(found)) < len(found):
                raise ContradictionError(f"the certificate contradicts itself: a {what} stands there twice.")
        # In format 1 the point of the curve may come from another bound.
        point = self.enclosure if self.format == 1 else dict(self.curve).get(self.delta)
        if self.epsilon != self.enclosure.upper or point != self.enclosure:
            raise ContradictionError("the certificate contradicts itself: epsilon, enclosure and the curve at delta must be one.")
        claimed = (self.bound, self.status, self.source, self.enclosure)
        if not any((row.name, row.status, row.source, row.epsilon) == claimed for row in self.bounds):
            raise ContradictionError("the certificate contradicts itself: its bound is none of its bounds.")

    def labelled(self, label: Label) -> Certificate:
        """The same certificate, which says what the release is called.

        Raises
        ------
        InputError
            It has format 1, which has no room for a label.
        """
        if self.format == 1:
            raise InputError("a certificate of format 1 has no label: certify the training again.")
        return replace(self, label=label, format=LABELLED)

    @property
    def unlabelled(self) -> Certificate:
        """The same certificate without its label."""
        return self if self.label is None else replace(self, label=None, format=FORMAT)

    def write(self, path: str | Path) -> None:
        """Write the JSON file, whole or not at all; raises ``InputError`` where that is not possible."""
        write_file(path, self.to_json())

    def __str__(self) -> str:
        """The certificate as plain text, 80 columns wide."""
        lines = [
            "Certificate",
            f"epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}   {self.standing}",
            "",
            paragraph(self.statement),
            *(["", paragraph(self.weak)] if self.weak else []),
            "",
            *columns(self.facts, least=12),
        ]
        for gap in self.gaps:
            lines += ["", paragraph(gap)]
        lines += ["", "It rests on"]
        least = max((len(one.name) for one in self.assumptions), default=0)
        for who, found in by_whom(self.assumptions):
            lines += [who, *columns([(one.name, one.statement) for one in found], least, indent="  ")]
        return "\n".join(lines)

    def __repr__(self) -> str:
        what = "" if self.certifies else ", certifies nothing"
        return f"<Certificate: epsilon {rounded_up(self.epsilon)} at delta {rounded_up(self.delta)}, {self.status}{what}>"
