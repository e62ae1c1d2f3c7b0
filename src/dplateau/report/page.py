"""A certificate as a page for a reviewer: one HTML file that loads nothing from elsewhere."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from dplateau._account import Report, account
from dplateau.accounting.attack import ALARM, RATES
from dplateau.accounting.enclosure import rounded_up
from dplateau.certificate import Certificate, Proof, Signed, Verdict, verify
from dplateau.certificate.signature import fingerprint
from dplateau.certificate.signed import UNSIGNED
from dplateau.certificate.words import OTHERS, UNITS, by_whom, guessing_accuracy, secret
from dplateau.files import as_path, check_file, write_file
from dplateau.report import page_figures as figures
from dplateau.report import page_words as words
from dplateau.report.pages import render
from dplateau.report.trade_off import PRIOR, Attack, detected, read_attack
from dplateau.report.words import PROVED, declined, percent
from dplateau.spec import InputError
from dplateau.spec.arguments import of_type
from dplateau.spec.promise import weakness

ENDINGS: Final = (".html", ".htm")
CLOSE: Final = 0.1
"""A delta is not well below 1/n above this share of it."""
SHOWN: Final = 12
"""Differences that are written out."""


def certificate_page(
    certificate: Certificate,
    report: Report | None = None,
    signed: Signed = UNSIGNED,
    proof: Proof | None = None,
    *,
    recorded: bool = False,
) -> str:
    """A page that says what is protected, against whom, and on what that rests; for readers who know no differential privacy.

    Every number on it is computed from the certificate's run, and not taken from what the certificate claims. The same certificate
    gives the same page.

    Parameters
    ----------
    certificate : Certificate
        Whatever its origin: what it says is checked, and shown as text.
    report : Report, optional
        What ``dplateau.account`` says of its run at its delta, if that is known already.
    signed : Signed, optional
        Who has signed its file, as ``read_signed`` says; by default nobody.
    proof : Proof, optional
        What ``prove`` or ``read_proof`` says of it.
    recorded : bool
        Whether that was read, and not computed now: nothing good is said of it then.

    Returns
    -------
    str
        HTML with its style, its scripts and its figures, light and dark, to be read on paper or without scripts too: some 60 kB.

    Raises
    ------
    UncertifiedError
        The run has no finite proved epsilon at all.
    ValueError
        The report is about another run, or another delta.
    """
    return _page(certificate, report, signed, proof, recorded)[0]


def write_page(
    certificate: Certificate,
    path: str | Path,
    signed: Signed = UNSIGNED,
    proof: Proof | None = None,
    *,
    recorded: bool = False,
) -> Verdict:
    """Write the page of a certificate: whole, or not at all.

    Parameters
    ----------
    certificate : Certificate
        What the page is about.
    path : str or Path
        An ``.html`` file; one that exists is replaced.
    signed : Signed, optional
        Who has signed its file, as ``read_signed`` says; by default nobody.
    proof : Proof, optional
        What ``prove`` or ``read_proof`` says of it.
    recorded : bool
        Whether that was read, and not computed now: nothing good is said of it then.

    Returns
    -------
    Verdict
        Whether the certificate agrees with what follows from its run, and certifies. The page is written in any case, and says so.

    Raises
    ------
    InputError
        The file cannot be written, or does not end in ``.html``.
    UncertifiedError
        The run has no finite proved epsilon at all.
    """
    path = check_page(path)
    page, verdict = _page(certificate, None, signed, proof, recorded)
    write_file(path, page)
    return verdict


def check_page(path: str | Path) -> Path:
    """Raise ``InputError`` if no page can be written there: better before computing than after it."""
    path = as_path(path, "page")
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path} does not end in .html: name the page accordingly.")
    check_file(path)
    return path


def _page(
    certificate: Certificate, report: Report | None, signed: Signed, proof: Proof | None, recorded: bool
) -> tuple[str, Verdict]:
    of_type("certificate", certificate, Certificate)
    if report is None:
        report = account(certificate.run, certificate.delta)
    if report.run != certificate.run or report.delta != certificate.delta:
        raise ValueError("the report is about another run or delta than the certificate: call account(run, delta) with its own.")
    verdict = verify(certificate, report)
    attack = read_attack(report.trade_off)
    page = render(
        "certificate.html",
        certificate=certificate,
        run=certificate.run,
        verdict=_verdict(certificate, verdict),
        signed=signed,
        identity=_identity(certificate, signed),
        strength=figures.strength(report.epsilon),
        proof=proof,
        recorded=recorded,
        proved=proof and f"{proof.proved_at[:10]}, {', '.join(' '.join(one) for one in proof.versions)}",
        fingerprint=fingerprint,
        who=_who(certificate),
        epsilon=rounded_up(report.epsilon),
        delta=words.one_in(report.delta),
        meaning=_meaning(report),
        attack=_attack(report, attack),
        curves=_curves(report, attack),
        bounds=_bounds(report),
        assumptions=by_whom(certificate.assumptions),
        method=words.method(certificate.run),
        facts=words.training_facts(certificate.run),
        trainings=words.TRAINING,
        run_json=words.run_in_brief(certificate.run),
        glossary=words.glossary(certificate.run),
    )
    # A forged file may hold halves of characters, which no file can be written with.
    return page.encode("utf-8", "replace").decode("utf-8"), verdict


def _verdict(certificate: Certificate, verdict: Verdict) -> dict[str, Any]:
    """The one thing that a reader must see."""
    why = certificate.statement.removeprefix("This certifies nothing: ")
    return {
        "why": why[0].upper() + why[1:],
        "certifies": verdict.certifies,
        "agrees": verdict.agrees,
        "void": certificate.void,
        "claimed": rounded_up(verdict.claimed),
        "recomputed": rounded_up(verdict.recomputed),
        "differences": [str(difference) for difference in verdict.differences[:SHOWN]],
        "more": max(len(verdict.differences) - SHOWN, 0),
        "made_with": words.made_with(certificate),
        "here": version("dplateau"),
    }


def _identity(certificate: Certificate, signed: Signed) -> dict[str, Any]:
    """What the page is about: what its maker calls it, and the fingerprints that tell it from any other."""
    stated = certificate.label.to_dict() if certificate.label else {}
    run = certificate.run
    prints = {"model": certificate.weights_sha256, "schema": certificate.schema_sha256, "run": certificate.run_digest}
    return {
        "title": stated.get("model") or "Privacy certificate",
        "rows": [
            ("data", stated.get("data")),
            (UNITS[run.unit], f"{run.n:,}"),
            ("purpose", stated.get("purpose")),
            ("released by", stated.get("author")),
            ("date", stated.get("date")),
            ("signature", signed.who if signed.matches else "does not match"),
            *((f"{name} fingerprint", f"{digest[:12]}…") for name, digest in prints.items() if digest),
        ],
    }


def _who(certificate: Certificate) -> dict[str, Any]:
    """What is protected, against whom, and who saw to it."""
    run = certificate.run
    return {
        "protected": words.PROTECTED[run.unit, run.adjacency].format(n=f"{run.n:,}"),
        "neighbours": words.NEIGHBOURS[run.unit, run.adjacency],
        "two": words.TWO[run.unit, run.adjacency],
        "several": words.SEVERAL[run.unit],
        "secret": secret(run),
        "others": OTHERS[run.unit],
        "units": UNITS[run.unit],
        "seen": words.released_to(run),
        "only_the_last": words.only_the_last(run),
        "counted": [(len(lines), who) for who, lines in by_whom(certificate.assumptions)],
    }


def _meaning(report: Report) -> dict[str, Any]:
    """What epsilon and delta say in numbers."""
    return {
        "times": words.times_as_likely(report.epsilon),
        "one_in": words.one_in(report.delta),
        "than": words.compared(report.delta * report.run.n),
        "close": report.delta * report.run.n > CLOSE,
        "too_large": report.delta * report.run.n >= 1,
    }


def _attack(report: Report, attack: Attack) -> dict[str, Any]:
    """What an attacker can do, in words."""
    which = report.run.unit, report.run.adjacency
    from_the_pair = guessing_accuracy(report.epsilon, report.delta, report.mu)
    alarm, rows = dict(attack.detects)[ALARM], figures.group_table(report.trade_off)
    return {
        "task": f"{secret(report.run)}. {words.FALSE_ALARM[report.run.adjacency]}",
        "sentence": words.DETECTS[which].format(share=percent(alarm)),
        "alarm": f"{100 * ALARM:g} %",
        "detects": [(f"{100 * false:g} %", percent(true, 2 if true < ALARM else 1)) for false, true in attack.detects],
        "advantage": percent(attack.advantage),
        "accuracy": percent(attack.accuracy),
        "accuracy_share": f"{100 * attack.accuracy:.1f}",
        "from_the_pair": percent(from_the_pair) if from_the_pair > attack.accuracy + 1e-3 else None,
        "posterior": percent(attack.posterior),
        "prior": f"{100 * PRIOR:g} %",
        "little": weakness(report.epsilon) is not None,
        "rows": rows,
        "says": words.SAYS[report.run.unit].format(share=rows[1]["accuracy"]) if report.run.adjacency == "add-remove" else "",
    }


def _curves(report: Report, attack: Attack) -> dict[str, Any]:
    """The figures, and the tables that hold their numbers."""
    curve, rates = figures.epsilon_curve(report), detected(report.trade_off, RATES)
    return {
        "epsilon": figures.epsilon_figure(report, curve),
        "epsilon_table": figures.epsilon_table(report, curve),
        "attack": figures.attack_figure(report.trade_off, attack, rates),
        "attack_table": figures.attack_table(rates),
    }


def _bounds(report: Report) -> dict[str, Any]:
    """What every analysis says: proved values, values without a guarantee, and why the others say nothing."""
    rows = [
        {
            "name": row.name,
            "status": row.status,
            "epsilon": figures.shown(value),
            "source": row.source,
            "best": row is report.best,
        }
        for value, row in report.ranked
    ]
    return {
        "proved": [row for row in rows if row["status"] == PROVED],
        "others": [row for row in rows if row["status"] != PROVED],
        "declined": declined(report),
        "best": report.best,
        "count": len(report.bounds),
        "width": rounded_up(best.width, 1) if (best := report.best and report.best.epsilon) else "0",
        "mu": None if report.mu is None else rounded_up(report.mu),
    }
