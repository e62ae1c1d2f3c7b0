"""Time and sharpness of privacy accounting: dplateau against dp_accounting and prv_accountant, side by side.

    python benchmarks/accounting.py            # three to five minutes
    python benchmarks/accounting.py --quick    # three settings, without prv_accountant and without 100 levels by the peer

The settings are those of Bu, Dong, Long, Su 2020, tables 1 to 4. dp_accounting composes privacy loss distributions with its default
grid of 1e-4, pessimistically; prv_accountant runs with ``eps_error=0.01`` and ``delta_error=delta/1000``. "full table" is
``dplateau.account``, which evaluates every analysis; "bare" is the exact composition alone, the like of what the peers compute.
Times are processor times, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import dplateau as dp
from common import about, alternate, median_ratio, peer, seconds, table
from dplateau.accounting.attack import true_positive_rate
from dplateau.accounting.trade_offs import of_guarantee
from dplateau.analyses import ExactCompositionBound


class Setting(NamedTuple):
    """Poisson batches of expected size ``batch`` of ``n`` records, all iterates released, add-remove."""

    name: str
    n: int
    batch: int
    z: float
    steps: int
    delta: float

    @property
    def q(self) -> float:
        return self.batch / self.n

    @property
    def run(self) -> dp.Run:
        return dp.Run(n=self.n, sampling=dp.Poisson(self.batch), steps=self.steps, noise_multiplier=self.z)


SETTINGS = [
    Setting("MNIST 1", 60_000, 256, 1.3, 3_516, 1e-5),
    Setting("MNIST 2", 60_000, 256, 1.1, 14_062, 1e-5),
    Setting("MNIST 3", 60_000, 256, 0.7, 10_547, 1e-5),
    Setting("MNIST 4", 60_000, 256, 0.6, 14_531, 1e-5),
    Setting("MNIST 5", 60_000, 256, 0.55, 15_938, 1e-5),
    Setting("MNIST 6", 60_000, 256, 0.5, 23_438, 1e-5),
    Setting("Adult", 29_305, 256, 0.55, 2_061, 1e-5),
    Setting("IMDb", 25_000, 512, 0.56, 439, 1e-5),
    Setting("MovieLens", 800_000, 10_000, 0.6, 1_600, 1e-6),
]
TARGET = Setting("z for epsilon 2", 10_000, 100, 1.0, 10_000, 1e-5)
LEVELS = (0.8, 2.0)
RATE = 0.01
"""False alarms."""


def bare(run: dp.Run, delta: float) -> dp.Enclosure:
    return ExactCompositionBound().guarantee(run).epsilon(delta)


def pld(dp_accounting: Any, steps: list[tuple[float, float, int]], delta: float) -> float:
    """Epsilon by dp_accounting; ``steps`` holds (rate, noise multiplier, how often)."""
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for q, z, count in steps:
        accountant.compose(dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z)), count)
    return accountant.get_epsilon(delta)


def prv(prv_accountant: Any, s: Setting) -> tuple[float, float, float]:
    """Lower end, estimate and upper end by prv_accountant."""
    mechanism = prv_accountant.PoissonSubsampledGaussianMechanism(sampling_probability=s.q, noise_multiplier=s.z)
    accountant = prv_accountant.PRVAccountant(
        prvs=[mechanism], eps_error=0.01, delta_error=s.delta / 1000, max_self_compositions=[s.steps]
    )
    return accountant.compute_epsilon(s.delta, [s.steps])


def measure(contestants: dict[str, Callable[[], Any]], repeats: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Times and answers of each contestant."""
    answers: dict[str, Any] = {}

    def keep(name: str, run: Callable[[], Any]) -> Callable[[], None]:
        return lambda: answers.__setitem__(name, run())

    kept = {name: keep(name, run) for name, run in contestants.items()}
    return alternate(kept, repeats, clock=time.process_time), answers


def against(times: dict[str, list[float]], name: str) -> str:
    return f"{median_ratio(times[name], times['bare']):.0f}x" if name in times else "-"


def epsilons(settings: list[Setting], repeats: int, dp_accounting: Any, prv_accountant: Any) -> list[float]:
    """Prints values and times; returns how many times as fast as the peer the bare composition is, setting by setting."""
    values: list[list[str]] = []
    speeds: list[list[str]] = []
    ratios: dict[str, list[float]] = {"bare": [], "full": []}
    for s in settings:
        contestants: dict[str, Callable[[], Any]] = {
            "full": lambda s=s: dp.account(s.run, s.delta),
            "bare": lambda s=s: bare(s.run, s.delta),
        }
        if dp_accounting:
            contestants["pld"] = lambda s=s: pld(dp_accounting, [(s.q, s.z, s.steps)], s.delta)
        if prv_accountant:
            contestants["prv"] = lambda s=s: prv(prv_accountant, s)
        times, answers = measure(contestants, repeats)
        ours, low_high = answers["bare"], answers.get("prv")
        peer_width = f"{low_high[2]:.4f} (width {low_high[2] - low_high[0]:.2g})" if low_high else "-"
        theirs = f"{answers['pld']:.6f}" if "pld" in answers else "-"
        setting = f"q={s.batch}/{s.n}, z={s.z}, T={s.steps}, delta={s.delta:g}"
        values.append([s.name, setting, f"{ours.upper:.6f}", f"{ours.width:.1e}", theirs, peer_width])
        shown = [seconds(times[name]) if name in times else "-" for name in ("full", "bare", "pld", "prv")]
        speeds.append([s.name, *shown, against(times, "pld"), against(times, "prv")])
        if "pld" in times:
            for name, found in ratios.items():
                found.append(median_ratio(times["pld"], times[name]))
    print(table(["", "setting", "dplateau", "its width", "dp_accounting PLD", "prv_accountant, upper end"], values) + "\n")
    print(table(["", "full table", "bare", "dp_accounting", "prv_accountant", "bare against PLD", "against PRV"], speeds) + "\n")
    for name, found in ratios.items():
        if found:
            print(f"{name} against dp_accounting: median {statistics.median(found):.0f}x, {min(found):.0f}x to {max(found):.0f}x\n")
    return ratios["bare"]


def calibration(repeats: int, dp_accounting: Any) -> list[float]:
    """Prints the calibrated noise and times; returns the ratio to the peer, if it is there."""
    contestants: dict[str, Callable[[], Any]] = {
        "bare": lambda: dp.calibrate(TARGET.run, epsilon=2.0, delta=TARGET.delta).noise_multiplier
    }
    if dp_accounting:
        from dp_accounting.pld import PLDAccountant

        def event(z: float) -> Any:
            gaussian = dp_accounting.GaussianDpEvent(z)
            return dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(TARGET.q, gaussian), TARGET.steps)

        contestants["pld"] = lambda: dp_accounting.calibrate_dp_mechanism(PLDAccountant, event, 2.0, TARGET.delta)
    times, answers = measure(contestants, repeats)
    names = {"bare": "`dplateau.calibrate`", "pld": "`dp_accounting.calibrate_dp_mechanism`, PLD"}
    rows = [[names[name], f"{answers[name]:.7f}", seconds(times[name]), against(times, name)] for name in times]
    print(table(["noise for epsilon 2 (q=.01, T=10,000, delta=1e-5)", "z", "time", "ratio"], rows) + "\n")
    return [median_ratio(times["pld"], times["bare"])] if "pld" in times else []


def schedules() -> list[tuple[str, dp.Run, bool]]:
    """Runs whose noise, or noise and rate, differ from step to step; whether the peer takes part."""
    common: dict[str, Any] = {"n": 60_000, "sampling": dp.Poisson(256)}
    few, many = np.linspace(*LEVELS, 100), np.linspace(*LEVELS, 40_000)
    growing = 0.8 * (1 + np.arange(40_000) / 400) ** 0.25
    sizes = tuple(np.round(np.linspace(128, 512, 3_000)).tolist())
    random = tuple(np.random.default_rng(0).uniform(*LEVELS, 3_000).tolist())
    return [
        ("100 levels from 0.8 to 2, 400 steps each", _varied(np.repeat(few, 400), common), True),
        ("40,000 levels from 0.8 to 2", _varied(many, common), False),
        ("40,000 levels, 0.8 (1 + t/400)^(1/4)", _varied(growing, common), False),
        ("40,000 levels from 0.8 to 2, replace", _varied(many, common | {"adjacency": "replace"}), False),
        (
            "3,000 steps, batches from 128 to 512, random noise from 0.8 to 2",
            dp.Run(n=60_000, sampling=dp.Poisson(sizes), steps=3_000, noise_multiplier=random),
            False,
        ),
    ]


def _varied(z: Any, common: dict[str, Any]) -> dp.Run:
    return dp.Run(steps=z.size, noise_multiplier=tuple(z.tolist()), **common)


def distinct(repeats: int, dp_accounting: Any) -> tuple[list[float], list[float]]:
    """Prints values and times of schedules; returns the seconds of 40,000 levels, bare and with the full table."""
    rows: list[list[str]] = []
    seconds_of: list[tuple[list[float], list[float]]] = []
    for name, run, compared in schedules():
        contestants: dict[str, Callable[[], Any]] = {
            "bare": lambda run=run: bare(run, 1e-5),
            "full": lambda run=run: dp.account(run, 1e-5),
        }
        if dp_accounting and compared:
            steps = [(256 / 60_000, float(level), 400) for level in np.linspace(*LEVELS, 100)]
            contestants["pld"] = lambda steps=steps: pld(dp_accounting, steps, 1e-5)
        times, answers = measure(contestants, repeats)
        ours, theirs = answers["bare"], f"{answers['pld']:.6f}, {seconds(times['pld'])}" if "pld" in times else "-"
        found = [f"{ours.upper:.6f}", f"{ours.width:.1e}", seconds(times["bare"]), seconds(times["full"]), theirs]
        rows.append([name, *found, against(times, "pld")])
        seconds_of.append((times["bare"], times["full"]))
    header = ["q=256/60000 unless said, delta=1e-5", "epsilon", "its width", "bare", "full table", "dp_accounting PLD", "ratio"]
    print(table(header, rows) + "\n")
    return seconds_of[1]


def attack_by_pld(s: Setting) -> float:
    """The largest true-positive rate at ``RATE``, from as many deltas as ``Report.trade_off`` asks for."""
    from dp_accounting.pld import privacy_loss_distribution as losses

    step = losses.from_gaussian_mechanism(s.z, sampling_prob=s.q)
    composed = step.self_compose(s.steps)
    epsilons = np.linspace(0.0, composed.get_epsilon_for_delta(1e-12), 160)
    deltas = np.asarray(composed.get_delta_for_epsilon(epsilons.tolist()))
    lines = np.concatenate([deltas + np.exp(epsilons) * RATE, 1 - np.exp(-epsilons) * (1 - RATE - deltas)])
    return float(lines.min())


def attack(s: Setting) -> float:
    """The same, with nothing kept from the last call."""
    of_guarantee._tabled.cache_clear()  # pyright: ignore[reportPrivateUsage]
    return true_positive_rate(dp.account(s.run, s.delta).trade_off, RATE)


def attacks(settings: list[Setting], repeats: int, dp_accounting: Any) -> None:
    """Prints what attackers detect at most, and the time of the trade-off function that says so, epsilon not included."""
    rows: list[list[str]] = []
    for s in settings:
        contestants: dict[str, Callable[[], Any]] = {
            "full": lambda s=s: dp.account(s.run, s.delta),
            "both": lambda s=s: attack(s),
        }
        if dp_accounting:
            contestants["pld"] = lambda s=s: attack_by_pld(s)
        times, answers = measure(contestants, repeats)
        theirs = f"{answers['pld']:.6f}" if "pld" in answers else "-"
        shown = [seconds(times[name]) if name in times else "-" for name in ("full", "both", "pld")]
        ratio = f"{median_ratio(times['pld'], times['both']):.1f}x" if "pld" in times else "-"
        rows.append([s.name, f"{answers['both']:.6f}", theirs, *shown, ratio])
    header = [f"detected at {100 * RATE:g} % false alarms", "dplateau", "dp_accounting PLD"]
    print(table([*header, "account", "with the trade-off function", "dp_accounting", "ratio"], rows) + "\n")


def targets(one: list[float], calibrated: list[float], levels: tuple[list[float], list[float]]) -> None:
    """What is required of the speed, what is aimed for, and what was measured; ratios are to dp_accounting's PLD."""
    rows = [
        ["epsilon of one composition, slowest setting", "30x", "200x", f"{min(one):.0f}x" if one else "-"],
        ["epsilon of one composition, median", "30x", "200x", f"{statistics.median(one):.0f}x" if one else "-"],
        ["calibrate z", "50x", "300x", f"{calibrated[0]:.0f}x" if calibrated else "-"],
        ["40,000 distinct noise levels, bare", "1 s", "0.1 s", seconds(levels[0])],
        ["40,000 distinct noise levels, full table", "1 s", "0.1 s", seconds(levels[1])],
    ]
    print(table(["work", "required", "aim", "measured"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="alternating repeats of each (default 5)")
    parser.add_argument("--quick", action="store_true", help="three settings, no prv_accountant, one repeat")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(about("numpy", "scipy", "dp-accounting", "prv-accountant"))
    dp_accounting, prv_accountant = peer("dp_accounting"), None if options.quick else peer("prv_accountant")
    repeats = 1 if options.quick else options.repeats
    one = epsilons(SETTINGS[::3] if options.quick else SETTINGS, repeats, dp_accounting, prv_accountant)
    attacks(SETTINGS[::3] if options.quick else SETTINGS, repeats, dp_accounting)
    calibrated = calibration(repeats, dp_accounting)
    levels = distinct(repeats, None if options.quick else dp_accounting)
    targets(one, calibrated, levels)


if __name__ == "__main__":
    main()
