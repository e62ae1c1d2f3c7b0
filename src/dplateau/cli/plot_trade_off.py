"""``dplateau plot-trade-off``: what an attacker can do at most, in words, as numbers, or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dplateau.cli import options as o
from dplateau.cli.output import busy, show, show_json

Output = Annotated[Path | None, o.output("The picture: .png, .svg or .pdf.")]
Log = Annotated[
    bool,
    o.flag("True-positive against false-positive rate, on logarithmic axes.", o.RESULT, "--log"),
]


@o.describes_a_run
def plot_trade_off(
    run: o.RunFile = None,
    *,
    given: o.Given,
    delta: o.Delta = None,
    output: Output = None,
    log: Log = False,
    json: o.Json = False,
) -> None:
    """Say what an attacker can do at most, and draw the trade-off between false alarms and misses.

    The certified curve is thick; thin curves with markers are proved but
    weaker; curves that are not guarantees are dashed.

    For example:

    dplateau plot-trade-off --n 60000 --batch-size 256 --epochs 60
    --noise-multiplier 1.1 --output trade-off.svg
    """
    from dplateau.report.picture import check_picture
    from dplateau.report.text import trade_off_text
    from dplateau.report.trade_off import trade_offs
    from dplateau.report.trade_off_picture import plot_trade_off

    described = o.run_of(o.run_in(run), **given)
    if output is not None:
        check_picture(output)
    with busy("accounting for all false-positive rates"):
        found = trade_offs(described, delta)
    if output is not None:
        plot_trade_off(found, output, log=log)
    if json:
        show_json(found.to_dict())
    else:
        show(trade_off_text(found))
