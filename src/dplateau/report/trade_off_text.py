"""What an attacker can do at most, for the terminal: 80 columns, with or without colour."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dplateau.certificate.words import SECRET, run_facts
from dplateau.report.text import facts as beside
from dplateau.report.text import headline
from dplateau.report.trade_off import ALARM, PRIOR, TradeOffs
from dplateau.report.words import PROVED, percent


def trade_off_text(found: TradeOffs) -> RenderableType:
    """What ``dplateau plot-trade-off`` shows: the certified curve, read at usual false-positive rates."""
    report, attack = found.report, found.attack
    rates = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("false alarms", "detects at most", "under perfect privacy"):
        rates.add_column(name, justify="right", no_wrap=True)
    for false, true in attack.detects:
        rates.add_row(f"{100 * false:g} %", Text(percent(true), "bold"), f"{100 * false:g} %")
    readings = beside(
        ("advantage", f"at most {percent(attack.advantage)}: true-positive rate minus false-positive rate"),
        ("accuracy", f"at most {percent(attack.accuracy)} right answers, where a coin toss has 50 %"),
        (
            "posterior",
            f"at most {percent(attack.posterior)} sure after an alarm, at {100 * ALARM:g} % false alarms, "
            f"from {100 * PRIOR:g} % before",
        ),
    )
    sentence = (
        f"Whoever knows all other rows, sees what was released, and guesses {SECRET[report.run.adjacency]}, does no better than "
        f"this. With {100 * ALARM:g} % false alarms, at most {percent(dict(attack.detects)[ALARM])} are detected."
    )
    return Group(
        headline(report.epsilon, report.delta, PROVED, good=True),
        "",
        beside(*run_facts(report.run)),
        "",
        rates,
        "",
        readings,
        "",
        sentence,
    )
