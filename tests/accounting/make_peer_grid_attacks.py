"""Write ``peer_grid_attacks.json``: what prv-accountant, riskcal and gdpnum give for Poisson DP-SGD on a fixed grid of settings.

``python make_peer_grid_attacks.py``, with these installed, takes some minutes; the tests read the file.
riskcal and gdpnum turn dp-accounting's pessimistic privacy loss distributions into trade-offs; the optimistic ones say how far
these may be off.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from gdpnum.converter import PLDConverter
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
from riskcal.analysis import get_advantage_from_pld, get_beta_from_pld

FILE = Path(__file__).with_name("peer_grid_attacks.json")
ALPHAS = (1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
SETTINGS, DELTA, INTERVAL, EPS_ERROR = 40, 1e-5, 1e-4, 0.02
RATES, NOISES, STEPS = (1e-3, 0.004, 0.01, 0.05, 0.2, 0.5), (0.5, 0.7, 1.0, 1.5, 3.0, 10.0), (1, 5, 30, 200, 1000, 5000)


def grid() -> list[dict[str, Any]]:
    """Settings of moderate privacy, chosen by a fixed seed."""
    rng = np.random.default_rng(7)
    every = [(q, z, t) for q in RATES for z in NOISES for t in STEPS if 0.01 < q * np.sqrt(t * np.expm1(z**-2)) < 4]
    return [
        dict(zip(("rate", "noise", "steps"), every[i], strict=True))
        for i in sorted(rng.choice(len(every), SETTINGS, replace=False))
    ]


def pld(row: dict[str, Any], pessimistic: bool) -> Any:
    """dp-accounting's loss distribution of the composition."""
    one = from_gaussian_mechanism(
        row["noise"],
        sampling_prob=row["rate"],
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
        value_discretization_interval=INTERVAL,
    )
    return one.self_compose(row["steps"])


def prv(row: dict[str, Any]) -> list[float] | None:
    """Lower end, estimate and upper end of epsilon at DELTA; None where the peer raises."""
    try:
        accountant = PRVAccountant(
            prvs=PoissonSubsampledGaussianMechanism(sampling_probability=row["rate"], noise_multiplier=row["noise"]),
            max_self_compositions=row["steps"],
            eps_error=EPS_ERROR,
            delta_error=DELTA / 1000,
        )
        return [float(value) for value in accountant.compute_epsilon(DELTA, [row["steps"]])]
    except (ArithmeticError, ValueError, RuntimeError) as error:
        print(row, repr(error), file=sys.stderr)
        return None


def main() -> None:
    """Compute every row and write the file."""
    warnings.simplefilter("ignore")
    rows, alphas = grid(), np.array(ALPHAS)
    for i, row in enumerate(rows):
        high, low = pld(row, True), pld(row, False)
        converter = PLDConverter(high)
        mu, regret = converter.get_mu_and_regret()
        row |= {
            "prv": prv(row),
            "advantage": float(get_advantage_from_pld(high)),
            "advantage_low": float(get_advantage_from_pld(low)),
            "beta": get_beta_from_pld(high, alpha=alphas.copy()).tolist(),
            "beta_high": get_beta_from_pld(low, alpha=alphas.copy()).tolist(),
            "gdpnum_beta": converter.get_beta(alphas.copy()).tolist(),
            "mu": float(mu),
            "regret": float(regret),
        }
        print(f"{i + 1}/{len(rows)}", file=sys.stderr, flush=True)
    head = {name: version(name) for name in ("prv-accountant", "riskcal", "gdpnum", "dp-accounting")}
    head |= {"alphas": ALPHAS, "delta": DELTA, "interval": INTERVAL, "eps_error": EPS_ERROR}
    lines = ",\n".join(json.dumps(row) for row in rows)
    FILE.write_text(f'{{"peers": {json.dumps(head)},\n"rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
