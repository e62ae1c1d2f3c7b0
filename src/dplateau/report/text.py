"""Reports, certificates, verdicts and attacks for the terminal: 80 columns, with or without colour."""

from __future__ import annotations

import io
from collections.abc import Iterator
from decimal import ROUND_DOWN, Context

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dplateau._account import Report
from dplateau.accounting.attack import ALARM
from dplateau.accounting.enclosure import rounded_up
from dplateau.analyses import burn_in
from dplateau.certificate import Certificate, Proof, Signed, Verdict
from dplateau.certificate.signed import UNSIGNED
from dplateau.certificate.words import OTHERS, by_whom, run_facts, secret, spread
from dplateau.report.trade_off import PRIOR, TradeOffs
from dplateau.report.words import PROVED, declined, percent
from dplateau.spec import Run, Runs
from dplateau.spec.promise import weakness
from dplateau.spec.runs import runs_of
from dplateau.spec.schedule import constant, is_constant

WIDTH = 80
SHOWN = 5


def as_text(content: RenderableType, width: int = WIDTH) -> str:
    """What a terminal without colour would show, ``width`` columns wide."""
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None, markup=False, emoji=False, highlight=False).print(content)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def facts(*rows: tuple[str, RenderableType], least: int = 12) -> Table:
    """Names beside what they stand for; the column of names is at least so wide. Long names are folded, and leave room."""
    grid = Table.grid(padding=(0, 2), pad_edge=False)
    grid.add_column(style="dim", overflow="fold", min_width=least, max_width=30)
    grid.add_column(ratio=1, overflow="fold")
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def headline(epsilon: float, delta: float, n: int, status: str, *, good: bool) -> Text:
    """The one line that matters. Nothing is green about a delta that allows publishing one record of ``n``."""
    colour = "red" if not good else "yellow" if weakness(epsilon) or delta * n >= 1 else "green"
    text = Text.assemble(("epsilon ", ""), (rounded_up(epsilon), f"bold {colour}"), f" at delta {rounded_up(delta)}")
    return text.append(f"   {status}", colour)


def bounds_table(report: Report) -> RenderableType:
    """What every analysis says: proved values, the least first; values without a guarantee; and why the others have none."""
    values = report.ranked
    proved, others = ([pair for pair in values if (pair[1].status == PROVED) is wanted] for wanted in (True, False))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for justify in ("left", "right"):
        table.add_column(justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column(ratio=1)
    if proved:
        table.add_row("proved", "epsilon", "source", style="dim")
    for value, row in proved:
        best = row is report.best
        table.add_row(("* " if best else "  ") + row.name, rounded_up(value), row.source, style="bold" if best else "")
    if proved and others:
        table.add_row()
    if others:
        table.add_row(Text("no guarantee", "not dim bold yellow"), "epsilon", "why it is none, and source", style="dim")
    for value, row in others:
        table.add_row(f"  {row.name}", rounded_up(value), f"{row.status}: {row.source}", style="dim")
    lines: list[RenderableType] = []
    for reason, names in declined(report):
        lines += [Padding(reason, (0, 0, 0, 2)), Padding(Text(", ".join(names), "dim"), (0, 0, 0, 6))]
    if not lines:
        return table
    return Group(table, *([""] if values else []), Text("not applicable, because", "dim"), *lines)


def _plateau(run: Run | Runs) -> list[tuple[str, RenderableType]]:
    """From which step on more steps cost nothing, by the formula of Altschuler and Talwar, where the last iterate has a plateau."""
    steps = None if isinstance(run, Runs) else burn_in(run)
    return [] if steps is None else [("plateau", f"from some {float(f'{steps:.2g}'):,.0f} steps on, up to a constant")]


def report_text(report: Report) -> RenderableType:
    """What ``dplateau account`` shows."""
    best = report.best
    status = "Proved" if best else "nothing is proved: no finite epsilon"
    note = f" It {report.choice}." if report.choice else ""
    return Group(
        headline(report.epsilon, report.delta, report.run.n, status, good=best is not None),
        "",
        facts(*run_facts(report.run), *_plateau(report.run)),
        "",
        bounds_table(report),
        "",
        Text(f"* the least proved bound. Only a proved bound may certify a release.{note}", "dim"),
    )


def calibration_text(report: Report, vary: str) -> RenderableType:
    """What ``dplateau calibrate`` shows: the answer, and what it certifiedly costs."""
    run = report.run
    found = ", ".join(_found(one, vary) for one in runs_of(run))
    return Group(
        Text.assemble(f"{vary} ", (found, "bold yellow" if weakness(report.epsilon) else "bold green")),
        headline(report.epsilon, report.delta, report.run.n, "Proved", good=True),
        "",
        facts(*run_facts(run)),
    )


def _found(run: Run, vary: str) -> str:
    """What was varied."""
    z = run.noise_multiplier
    if vary == "noise-multiplier":
        return rounded_up(constant(z), 9) if is_constant(z) else spread(z, 9)
    return f"{run.steps:,}" if vary == "steps" else spread(getattr(run.sampling, "batch_size", 0.0), 9)


def certificate_text(certificate: Certificate) -> RenderableType:
    """What ``print(certificate)`` shows, in colour."""
    return Group(
        Text("Certificate", "bold"),
        headline(certificate.epsilon, certificate.delta, certificate.run.n, certificate.standing, good=certificate.certifies),
        "",
        certificate.statement,
        *_warnings(certificate.weak),
        "",
        facts(*certificate.facts),
        *_warnings(*certificate.gaps),
        "",
        Text("It rests on", "bold"),
        *_assumptions(certificate),
    )


def _warnings(*sentences: str | None) -> list[RenderableType]:
    """That a certificate promises little, where it does, or what it cannot know: each in a paragraph of its own."""
    return [Padding(Text(one, "yellow"), (1, 0, 0, 0)) for one in sentences if one]


def _assumptions(certificate: Certificate) -> Iterator[RenderableType]:
    """What the guarantee rests on, by who saw to it."""
    least = max((len(one.name) for one in certificate.assumptions), default=0)
    for who, lines in by_whom(certificate.assumptions):
        yield who
        yield Padding(facts(*((one.name, one.statement) for one in lines), least=least), (0, 0, 0, 2))


def verdict_line(certificate: Certificate, verdict: Verdict, signed: Signed = UNSIGNED) -> Text:
    """What a recomputation found, in one line. Nothing is good about numbers whose signature does not match."""
    colour = "red" if not (verdict.certifies and signed.matches) else "yellow" if certificate.weak else "green"
    if not verdict.agrees:
        first = "the certificate DIFFERS from what follows from its run"
    elif not signed.matches:
        return Text("its numbers follow from its run, but nobody knows whose they are")
    elif not verdict.certifies:
        first = f"the numbers agree, but the certificate certifies nothing: {certificate.void}"
    else:
        first = "the certificate agrees with what follows from its run"
    return Text(first, f"bold {colour}")


def signature_line(signed: Signed, *, good: bool = True) -> Text:
    """Who has signed it, and when by their own word; ``good`` says whether what is signed certifies anything."""
    known = "green" if good else "yellow"
    style = {"known": known, "unknown": "yellow", "unsigned": "dim", "mismatch": "bold red"}[signed.state]
    if not signed.matches:
        return Text(f"{signed.who}, so it certifies nothing", style)
    return Text.assemble((signed.who, style), f"; {signed.when}" if signed.when else "")


def verdict_text(certificate: Certificate, verdict: Verdict, signed: Signed = UNSIGNED) -> RenderableType:
    """What ``dplateau account --run certificate.json`` shows."""
    signature = signature_line(signed, good=verdict.certifies)
    both = facts(
        ("certificate", f"epsilon {verdict.claimed:.9g} at delta {rounded_up(verdict.delta)}"),
        ("recomputed", f"epsilon {verdict.recomputed:.9g} at delta {rounded_up(verdict.delta)}"),
        *certificate.model_facts,
        ("signature", signature),
    )
    first = [] if signed.matches else [signature]
    lines: list[RenderableType] = [*first, verdict_line(certificate, verdict, signed), "", both]
    if verdict.differences:
        lines += ["", *(Padding(str(difference), (0, 0, 0, 2)) for difference in verdict.differences[:SHOWN])]
        if len(verdict.differences) > SHOWN:
            lines.append(f"  and {len(verdict.differences) - SHOWN} more entries")
    else:
        lines += ["", certificate.statement, *_warnings(certificate.weak)]
    return Group(*lines, *_warnings(*certificate.gaps))


def proof_line(proof: Proof, *, recorded: bool = False, good: bool = True) -> Text:
    """What ball arithmetic found, in one line. Nothing is green about a record, which anybody can write, nor if not ``good``."""
    if recorded:
        return Text(
            f"a record beside it says: {proof.outcome} by a second computation ({proof.proved_at}); repeat it: dplateau verify"
        )
    known = "bold green" if good and not weakness(proof.epsilon) else "bold yellow"
    style = {"verified": known, "refuted": "bold red"}.get(proof.outcome, "bold yellow")
    digits = f" to {proof.digits} digits" if proof.digits and proof.verified else ""
    more = {"refuted": ": the bound gives more,", "not decided": f": {proof.why},"}.get(proof.outcome, "")
    return Text.assemble((proof.outcome, style), f"{digits}{more} in {proof.seconds:.1f} s of ball arithmetic")


def proof_text(proof: Proof, certificate: Certificate | None = None, signed: Signed = UNSIGNED) -> RenderableType:
    """What ``dplateau verify`` shows; of a certificate, first of all, where it certifies nothing."""
    first = list[RenderableType]()
    if not signed.matches:
        first.append(signature_line(signed))
    if certificate is not None and not certificate.certifies:
        first.append(Text(f"the certificate certifies nothing: {certificate.void or certificate.status}", "bold red"))
    if proof.lower is None:
        least = "unknown" if proof.upper is None else f"at most epsilon {proof.upper:.15g}"
    else:
        least = f"epsilon {_common(proof.lower, proof.upper)}" if proof.upper else f"more than epsilon {proof.lower:.15g}"
    both = facts(
        ("claim", f"epsilon {proof.epsilon:.15g} at delta {proof.delta:.15g}"),
        ("the bound gives", least),
        ("bound", proof.bound),
        ("proved with", ", ".join(f"{name} {number}" for name, number in proof.versions)),
    )
    weak = _warnings(weakness(proof.epsilon)) if proof.verified and not first else []
    return Group(*first, proof_line(proof, good=not first), *other_numbers(proof), "", both, *weak)


def other_numbers(proof: Proof) -> list[RenderableType]:
    """What was found of a certificate's other numbers: how many are verified, and each that is not."""
    lines = list[RenderableType]()
    for kind, asked in (
        ("other epsilons", [one for one in proof.others if one.about is None]),
        ("numbers about attackers", [one for one in proof.others if one.about is not None]),
    ):
        doubtful = [one for one in asked if not one.verified]
        count = f"{len(asked) - len(doubtful)} of {len(asked)} {kind} are verified"
        if asked:
            seconds = sum(one.seconds for one in asked)
            lines.append(Text.assemble((count, "bold yellow" if doubtful else ""), f", in {seconds:.1f} s"))
        for one in doubtful:
            claim = one.about or f"epsilon {one.epsilon:.8g} at delta {one.delta:.15g}"
            lines.append(Padding(f"{one.outcome}: {claim}, {one.bound}" + f": {one.why}" * bool(one.why), (0, 0, 0, 2)))
    return lines


def _common(lower: float, upper: float) -> str:
    """The first digits, which both share, and three dots."""
    for digits in range(15, 1, -1):
        cut = Context(digits, ROUND_DOWN).create_decimal_from_float
        if cut(lower) == cut(upper):
            return f"{float(cut(lower)):.{digits}g}..."
    return f"between {lower:.9g} and {upper:.9g}"


def trade_off_text(found: TradeOffs) -> RenderableType:
    """What ``dplateau plot-trade-off`` shows: the certified curve, read at usual false-positive rates."""
    report, attack = found.report, found.attack
    rates = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("false alarms", "detects at most", "under perfect privacy"):
        rates.add_column(name, justify="right", no_wrap=True)
    for false, true in attack.detects:
        rates.add_row(f"{100 * false:g} %", Text(percent(true), "bold"), f"{100 * false:g} %")
    readings = facts(
        ("advantage", f"at most {percent(attack.advantage)}: true-positive rate minus false-positive rate"),
        ("accuracy", f"at most {percent(attack.accuracy)} right answers, where a coin toss has 50 %"),
        (
            "posterior",
            f"at most {percent(attack.posterior)} sure after an alarm, at {100 * ALARM:g} % false alarms, "
            f"from {100 * PRIOR:g} % before",
        ),
    )
    sentence = (
        f"Anyone who knows {OTHERS[report.run.unit]}, sees what was released, and guesses {secret(report.run)}, does no better"
        f" than this. With {100 * ALARM:g} % false alarms, at most {percent(dict(attack.detects)[ALARM])} are detected."
    )
    return Group(
        headline(report.epsilon, report.delta, report.run.n, PROVED, good=True),
        "",
        facts(*run_facts(report.run)),
        "",
        rates,
        "",
        readings,
        "",
        sentence,
    )
