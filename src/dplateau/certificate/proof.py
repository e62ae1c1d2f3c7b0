"""``prove``: an epsilon computed a second time, in ball arithmetic, without any numerical code of the accountant."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dplateau._account import Report, account, leading_analyses
from dplateau.accounting import NotApplicable
from dplateau.accounting.selection import Selected
from dplateau.accounting.slack import WithSlack
from dplateau.analyses import ANALYSES
from dplateau.analyses.composed import NAME as COMPOSED
from dplateau.analyses.private_selection import NAME as SELECTION
from dplateau.analyses.private_selection import best_of_candidates, covering
from dplateau.certificate.attacks import attack_claims
from dplateau.certificate.certificate import Certificate
from dplateau.certificate.parts import keys, list_of, object_of, text_of
from dplateau.certificate.signature import TIME
from dplateau.files import as_path, read_small
from dplateau.spec import ContradictionError, InputError, PrivacyWarning, Run, Runs, Selection, UncertifiedError
from dplateau.spec.arguments import real
from dplateau.spec.missing import explained
from dplateau.spec.runs import runs_of
from dplateau.spec.shown import shown
from dplateau.spec.strict_json import strict_json
from dplateau.verifier.outcome import Checked, Outcome, Part
from dplateau.verifier.steps import too_long

if TYPE_CHECKING:
    from dplateau.verifier.check import Whole

KIND: Final = "dplateau proof"
FORMAT: Final = 1
WITH_OTHERS: Final = 2
"""The format of a file about a certificate's other numbers, too."""
LARGEST: Final = 65_536
"""Bytes of a file with proofs; one has some 600."""
_OPTIONAL: Final = ("about", "others")
"""What a file holds only where there is something to say."""
_BY_NAME: Final = {analysis.name: analysis for analysis in ANALYSES}


@dataclass(frozen=True, repr=False)
class Proof:
    """What ball arithmetic says of one claim.

    Attributes
    ----------
    outcome : str
        "verified": the bound gives the claim, or less. "refuted": it gives more. "not decided": neither was shown.
    why : str or None
        Why it is not decided.
    epsilon, delta : float
        The claim.
    bound : str
        The bound that was asked.
    lower, upper : float or None
        Ends of a ball that holds the least epsilon that the bound gives at ``delta``, with the look-backs that the accountant
        chose; None where an end is not known.
    digits : int or None
        To how many digits that epsilon is known; None where it has no lower end.
    seconds : float
        How long it took.
    proved_at : str
        The time by this machine's clock, in UTC.
    versions : tuple of (str, str)
        Software, and its version.
    about : str or None
        The number about attackers that follows from the claim; None where the epsilon itself is what is asked for.
    others : tuple of Proof
        What it says of a certificate's other numbers, where somebody asked: epsilons of the curve, then those of the other bounds,
        then what its page says of attackers.
    """

    outcome: str
    why: str | None
    epsilon: float
    delta: float
    bound: str
    lower: float | None
    upper: float | None
    digits: int | None
    seconds: float
    proved_at: str
    versions: tuple[tuple[str, str], ...]
    about: str | None = None
    others: tuple[Proof, ...] = ()

    def __repr__(self) -> str:
        return shown(self)

    @property
    def verified(self) -> bool:
        """Whether the claim is proved."""
        return self.outcome == Outcome.VERIFIED

    @property
    def worst(self) -> str:
        """The outcome of all that was asked."""
        outcomes = {self.outcome, *(one.outcome for one in self.others)}
        return next(one.value for one in (Outcome.REFUTED, Outcome.NOT_DECIDED, Outcome.VERIFIED) if one in outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data = {**vars(self), "versions": dict(self.versions), "others": [one.to_dict() for one in self.others]}
        return {name: value for name, value in data.items() if value or name not in _OPTIONAL}

    def to_json(self, content: bytes) -> str:
        """The text of a file that says so of a certificate with these bytes."""
        number = WITH_OTHERS if self.others else FORMAT
        data = {"kind": KIND, "format": number, "certificate_sha256": hashlib.sha256(content).hexdigest(), **self.to_dict()}
        return json.dumps(data, indent=1, allow_nan=False) + "\n"


def proof_path(certificate: Path) -> Path:
    """Where the proof of a certificate file lies."""
    return as_path(certificate, "certificate").with_suffix(".proof.json")


def read_proof(certificate: Path, content: bytes) -> Proof | None:
    """What lies beside a certificate file, if it is about these bytes; None otherwise. It is a record, which anybody can write.

    Raises
    ------
    InputError
        The file beside it is not a proof.
    """
    path = proof_path(certificate)
    if not path.exists():
        return None
    kept = read_small(path, "a proof", LARGEST)[0]
    try:
        data = object_of("the proof", strict_json(kept.decode("utf-8", "replace")))
        kind, number, about = (data.pop(name, None) for name in ("kind", "format", "certificate_sha256"))
        if kind != KIND or number not in (FORMAT, WITH_OTHERS) or not isinstance(about, str):
            raise InputError(f"this is not a {KIND}.")
        others = list_of("others", data.pop("others", None)) if number == WITH_OTHERS else []
        found = replace(_proof(data), others=tuple(map(_proof, others)))
    except InputError as error:
        raise InputError(f"{path}: {error} Remove it, or verify the certificate again with --save.") from None
    return found if about == hashlib.sha256(content).hexdigest() else None


def _proof(data: Any) -> Proof:
    """The proof that ``to_dict`` wrote, without others."""
    data = keys("the proof", {"about": None, **object_of("the proof", data)}, Proof.__dataclass_fields__.keys() - {"others"})
    if data["outcome"] not in list(Outcome) or not isinstance(data["versions"], dict):
        raise InputError("the proof has no outcome, or no versions.")

    def number(name: str) -> float | None:
        return None if data[name] is None else real(name, data[name], inclusive=True)

    digits = number("digits")
    return Proof(
        outcome=data["outcome"],
        why=None if data["why"] is None else text_of("why", data["why"]),
        epsilon=number("epsilon") or 0.0,
        delta=number("delta") or 0.0,
        bound=text_of("bound", data["bound"]),
        lower=number("lower"),
        upper=number("upper"),
        digits=None if digits is None else int(digits),
        seconds=number("seconds") or 0.0,
        proved_at=text_of("proved_at", data["proved_at"]),
        versions=tuple((text_of("software", name), text_of("version", found)) for name, found in data["versions"].items()),
        about=None if data["about"] is None else text_of("about", data["about"]),
    )


def prove(
    claimed: Certificate | Run | Runs, epsilon: float | None = None, delta: float | None = None, *, every: bool = False
) -> Proof:
    """Prove again that a certificate's bound gives its epsilon at its delta, or that a run has a given one.

    Everything that counts is computed in ball arithmetic (Arb) from the run's numbers as they are written, with a bound on every
    error; the accountant is only asked what it chose, such as a look-back, since any choice is a bound.

    Parameters
    ----------
    claimed : Certificate, Run or Runs
        What is claimed; a certificate with a mu claims that, too. Whether the run is what really happened cannot be computed.
    epsilon, delta : float, optional
        The claim about a run; a certificate states its own.
    every : bool, default False
        Of a certificate: prove the epsilon at each delta of its curve, that of each other proved bound, and the true-positive rates
        and the advantage of attackers on its page, too.

    Raises
    ------
    InputError
        A claim is missing, or no number in its range; or there are too many steps to look at.
    ContradictionError
        The certificate's run is not the one whose digest it holds.
    UncertifiedError
        The run has no finite proved epsilon at all.
    ModuleNotFoundError
        python-flint is not installed: ``dplateau[verify]``.
    """
    if isinstance(claimed, Certificate):
        if epsilon is not None or delta is not None:
            raise InputError("a certificate states its own epsilon and delta: leave out both.")
        if claimed.run.digest != claimed.run_digest:
            raise ContradictionError("the certificate's run is not the one whose digest it holds: somebody has changed it.")
        if every and (why := _too_long(claimed.run)):
            raise InputError(f"the other numbers cannot be proved: {why}.")
        known = _Known()
        found = _proved(claimed.run, claimed.bound, claimed.epsilon, claimed.delta, known, claimed.mu)
        return replace(found, others=tuple(_others(claimed, found, known))) if every else found
    if epsilon is None or delta is None:
        raise InputError("a run states no claim: give epsilon and delta.")
    if every:
        raise InputError("a run states no other numbers: every is for certificates.")
    epsilon, delta = real("epsilon", epsilon, inclusive=True), real("delta", delta)
    if delta >= 1:
        raise InputError(f"delta is {delta:g}: expected a number in (0, 1), well below 1/n = {1 / claimed.n:.3g}.")
    if why := _too_long(claimed):
        raise InputError(f"nothing can be verified: {why}.")
    return _proved(claimed, _best(account(claimed, delta)), epsilon, delta, _Known())


def _quietly(certificate: Certificate, delta: float) -> Report:
    """What is said of a certificate's run; whoever made it has been warned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return account(certificate.run, delta)


def _best(report: Report) -> str:
    """The bound that is least."""
    best = report.best
    if best is None:
        raise UncertifiedError("the run has no finite proved epsilon at all: nothing can be verified.")
    return best.name


def _others(certificate: Certificate, claim: Proof, known: _Known) -> Iterator[Proof]:
    """The other epsilons, of the curve and of the bounds, and attackers. What is no smaller than what was proved is proved, too."""
    proved = {(_leading(claim.bound), claim.delta): claim}
    for bound, epsilon, delta in _other_claims(certificate):
        key = _leading(bound), delta
        if key in proved and proved[key].verified and proved[key].epsilon <= epsilon:
            yield replace(proved[key], bound=bound, epsilon=epsilon, seconds=0.0)
        else:
            proved[key] = _proved(certificate.run, bound, epsilon, delta, known)
            yield proved[key]
    yield from prove_attacks(_quietly(certificate, certificate.delta), known)


def _other_claims(certificate: Certificate) -> Iterator[tuple[str, float, float]]:
    """Bounds with what they are said to give: an epsilon at a delta."""
    for delta, epsilon in certificate.curve:
        if delta != certificate.delta and epsilon.upper < math.inf:
            yield _best(_quietly(certificate, delta)), epsilon.upper, delta
    for row in certificate.bounds:
        if row.status == "Proved" and row.name != certificate.bound and row.epsilon is not None:
            yield row.name, row.epsilon.upper, certificate.delta


def prove_attacks(report: Report, known: _Known | None = None) -> Iterator[Proof]:
    """What a page says of attackers on the report's run: each claim follows from an epsilon with its delta, which are proved."""
    known = known or _Known()
    with explained():
        from dplateau.verifier.balls import room_for_delta
    verified: set[str | None] = {None}
    for one in attack_claims(report):
        delta = room_for_delta(one.epsilon, one.share, one.most)
        chosen_for = report.delta, one.chosen_for
        found = replace(_proved(report.run, one.bound, one.epsilon, delta, known, chosen_for=chosen_for), about=one.about)
        if found.verified and one.before not in verified:
            found = replace(found, outcome=Outcome.NOT_DECIDED.value, why=f"it follows from a number that is not: {one.before}")
        if found.verified:
            verified.add(one.about)
        yield found


class _Known:
    """What was computed for one claim may do for others about the same runs, bounds and look-backs."""

    def __init__(self) -> None:
        self._found: dict[tuple[tuple[Part, ...], float | None], list[Whole]] = {}

    def about(self, parts: list[Part], chosen_for: float) -> list[Whole]:
        # Without look-backs nothing depends on what they are chosen for.
        same = all(part.steps is None for part in parts)
        return self._found.setdefault((tuple(parts), None if same else chosen_for), [])


def _proved(
    run: Run | Runs,
    bound: str,
    epsilon: float,
    delta: float,
    known: _Known,
    mu: float | None = None,
    chosen_for: tuple[float, float] | None = None,
) -> Proof:
    """One claim, and mu-GDP, if mu is given. Bounds of several runs, and then look-backs, are chosen for these deltas, or delta."""
    with explained():
        from dplateau.verifier.check import check
        from dplateau.verifier.divergence import check_cost
    first, then = chosen_for or (delta, delta)
    if why := _too_long(run, bound):  # Then the accountant is not asked what it chose, either.
        checked = Checked(Outcome.NOT_DECIDED, why)
    elif not delta > 0:
        checked = Checked(Outcome.NOT_DECIDED, "it leaves nothing for delta")
    elif isinstance(run, Selection) and bound == SELECTION:
        checked = _selected(run, epsilon, delta, first)
        if mu is not None and checked.outcome == Outcome.VERIFIED:
            checked = replace(checked, outcome=Outcome.NOT_DECIDED, why=f"mu = {mu:g} was not proved: a selection has none")
    elif bound not in {COMPOSED, *_BY_NAME}:
        checked = Checked(Outcome.NOT_DECIDED, f"the bound {bound} has no second computation")
    else:
        runs = runs_of(run)
        parts = [_part(one, bound, first / len(runs), then / len(runs)) for one in runs]
        checked = check(parts, epsilon, delta, then, known.about(parts, then))
        if mu is not None and checked.outcome is Outcome.VERIFIED:
            of_mu = check_cost(parts, None, Fraction(mu) ** 2)
            if of_mu.outcome is not Outcome.VERIFIED:
                checked = replace(checked, outcome=Outcome.NOT_DECIDED, why=f"mu = {mu:g} was not proved: {of_mu.why}")
    return Proof(
        outcome=checked.outcome.value,
        why=checked.why,
        epsilon=epsilon,
        delta=delta,
        bound=bound,
        lower=checked.lower or None,
        upper=checked.upper if checked.upper < math.inf else None,
        digits=checked.digits,
        seconds=checked.seconds,
        proved_at=datetime.now(UTC).strftime(TIME),
        versions=tuple((name, version(name)) for name in ("dplateau", "python-flint")),
    )


def _too_long(run: Run | Runs, bound: str | None = None) -> str | None:
    """Why a bound, or any other one too, cannot be asked."""
    return next(filter(None, (too_long(one, counted=bound == "exact-composition") for one in runs_of(run))), None)


def _selected(selection: Selection, epsilon: float, delta: float, first: float) -> Checked:
    """The claim about a selection, at the order and, for a first delta, by the candidates' bounds that the accountant chooses."""
    from dplateau.verifier.selection import check_selection

    found = best_of_candidates(selection, leading_analyses(), first)
    if isinstance(found, NotApplicable):
        return Checked(Outcome.NOT_DECIDED, found.why_not)
    assert isinstance(found.guarantee, Selected)
    return check_selection(candidates(selection, first), selection.probability, found.guarantee.order(delta), epsilon, delta)


def candidates(selection: Selection, delta: float) -> list[list[Part]]:
    """The runs of each candidate, with the bounds that the accountant chooses at ``delta``; ``ValueError`` where there is none."""
    leading, share = leading_analyses(), delta / len(selection.candidates)

    @cache
    def part(run: Run) -> Part:
        if (chosen := covering(run, leading, share)) is None:
            raise ValueError("no proved bound gives a candidate a finite Renyi divergence")
        return Part(run, chosen[0].name)

    return [[part(run) for run in runs_of(one)] for one in selection.candidates]


def _leading(bound: str) -> str:
    """The bound that dominates it, and that none dominates."""
    analysis = _BY_NAME.get(bound)
    return bound if analysis is None or analysis.dominated_by is None else _leading(analysis.dominated_by)


def _part(run: Run, bound: str, first: float, then: float) -> Part:
    """One run with the bound that was claimed of it, or one that covers it and is no worse; of several, its own best one at the
    first delta. Its look-back is chosen for the other one.
    """
    if bound == COMPOSED:
        fitting = [analysis for analysis in leading_analyses() if analysis.why_not(run) is None]
        analysis = min(fitting, key=lambda one: one.guarantee(run).upper(first))
    else:
        analysis = _BY_NAME[_leading(bound)]
        if analysis.why_not(run) is not None:  # What dominates the bound may cover fewer runs.
            analysis = _BY_NAME[bound]
            if (why_not := analysis.why_not(run)) is not None:
                raise InputError(f"the bound {bound} is none of such a run: {why_not}")
    chosen = analysis.guarantee(run).chosen(then)
    return Part(run, analysis.name, chosen.steps if isinstance(chosen, WithSlack) else None)
