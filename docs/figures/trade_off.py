"""Draws trade-off.svg and trade-off-log.svg, beside this file: row 2 of Table 1 of Bu, Dong, Long and Su 2020."""

from __future__ import annotations

from pathlib import Path

import dplateau as dp
from dplateau.report.trade_off import trade_offs
from dplateau.report.trade_off_picture import plot_trade_off

FOLDER = Path(__file__).parent
RUN = dp.Run(n=60_000, sampling=dp.Poisson(batch_size=256), steps=14_062, noise_multiplier=1.1)

if __name__ == "__main__":
    found = trade_offs(RUN, delta=1e-5)
    plot_trade_off(found, FOLDER / "trade-off.svg")
    plot_trade_off(found, FOLDER / "trade-off-log.svg", log=True)
