"""What the page is told, part by part: most parts are there within a tenth of a second."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final

from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.trade_offs import epsilon_delta
from dplateau.certificate.words import RELEASED, batches_of, counted, protects
from dplateau.report.trade_off import read_attack
from dplateau.spec import InputError, Poisson, PrivacyWarning, Run
from dplateau.ui import curves
from dplateau.ui.commands import command, python, train_command
from dplateau.ui.noise import Calibrated, at_step_size, composition, found, rough, step_size_of
from dplateau.ui.risk import drift, excess_risk
from dplateau.ui.settings import MOST_COST, MOST_DRAWN, MOST_RARE, NUMBERS, RISK_AT_START, Settings, SettingsError

MOST_WEIGHTS: Final = 10_000
"""As ``dplateau.planning.MOST_WEIGHTS``, which cannot be read without JAX."""
_BOUNDS: Final = {
    "exact-composition": "composition of all steps",
    "fixed-order": "the last-iterate bound for full and ordered batches",
    "shuffled": "the last-iterate bound for shuffled batches",
    "sampled-last-iterate": "the last-iterate bound for random batches",
    "reflection-coupling": "the last-iterate bound for random batches, by reflection coupling",
}
WORTH: Final = ("last", "convex", "shrunk", "ball")
"""Assumptions of which the page says what they are worth."""


def answer(settings: Settings, part: str, piece: int = 0) -> dict[str, Any]:
    """One part of the answer, as plain data for JSON.

    Parameters
    ----------
    settings : Settings
        What is asked.
    part : str
        One of ``PARTS``.
    piece : int
        Which piece of it, from 0 on.

    Raises
    ------
    SettingsError
        The part or the piece does not exist, or no noise meets the target.
    """
    if part not in PARTS:
        raise SettingsError({"part": f"expected one of {', '.join(PARTS)}."})
    with _possible():
        return _answered(settings, part, piece)


def planned(settings: Settings) -> Run:
    """The run of these settings, with its noise.

    Raises
    ------
    SettingsError
        No noise meets the target.
    """
    with _possible():
        return found(settings).run


@contextmanager
def _possible() -> Iterator[None]:
    """What no noise can do is an error of epsilon."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # The page says itself where delta is too large.
            yield
    except SettingsError:
        raise
    except InputError as error:
        raise SettingsError({"epsilon": str(error)}) from None


@lru_cache(maxsize=1024)
def _answered(settings: Settings, part: str, piece: int) -> dict[str, Any]:
    count, make = pieces(settings, part), PARTS[part][1]
    if not 0 <= piece < count:
        raise SettingsError({"piece": f"expected a number from 0 to {count - 1}."})
    return {"part": part, "piece": piece, "pieces": count, **make(settings, piece)}


def pieces(settings: Settings, part: str) -> int:
    """In how many pieces a part comes."""
    count = PARTS[part][0]
    return count if isinstance(count, int) else count(settings)


def _noise(settings: Settings, _: int) -> dict[str, Any]:
    best = found(settings)
    run = best.run
    sigma = best.noise * run.clip_norm / settings.size
    moved = drift(run.steps, step_size_of(settings), sigma, settings.strong_convexity) if settings.convex else None
    return {
        **_shown(best.noise),
        "epsilon": best.epsilon,
        "bound": best.best.name,
        "bound_words": _BOUNDS.get(best.best.name, best.best.name),
        "source": best.best.source,
        "counts_on_last": settings.counts_on_last,
        "composition": None if settings.takes_long else _composition(settings, 0),
        "protects": protects(run),
        "training": f"{run.steps:,} steps, {_batches(run)}",
        "released": RELEASED[run.released],
        "steps": run.steps,
        "rows": run.n,
        "step_size": run.step_size,
        "smoothness": settings.smoothness if settings.convex else None,
        "noise_of_mean": sigma,
        "drift": moved,
        "notes": _notes(settings, best),
        "doubtful": settings.delta >= 1 / settings.n or settings.epsilon > MOST_COST,
        "command": command(run, settings.epsilon, settings.delta),
        "python": python(settings, run),
        "train": train_command(settings, run),
    }


def _composition(settings: Settings, _: int) -> dict[str, Any]:
    """What composition, which counts on no assumption, needs, and how many times the noise that is. None if no noise is enough."""
    noise = None
    with suppress(InputError):
        noise = composition(settings).noise
    return {**_shown(noise), "times": None if noise is None else noise / found(settings).noise}


def _first(settings: Settings, _: int) -> dict[str, Any]:
    """What can be said within a tenth of a second: the answer itself, or about what composition needs."""
    about = None
    with suppress(InputError):  # What no rough number is told of may have a certified one.
        about = rough(settings) if settings.takes_long else None
    if about is None:
        return {"certified": True, **_noise(settings, 0)}
    last = " The last iterate, which may need less, is looked at, too." if settings.counts_on_last else ""
    words = f"About what composition needs, and not certified: the certified number is on its way.{last}"
    return {"certified": False, "noise": about, "shown": f"about {about:.3g}", "words": words}


def _batches(run: Run) -> str:
    return batches_of(run, counted(run.sampling.divisors(run.n)))  # type: ignore[arg-type]


def _notes(settings: Settings, best: Calibrated) -> list[str]:
    """What a reader should know before he relies on the numbers."""
    notes: list[str] = []
    if settings.delta >= 1 / settings.n:
        notes.append(
            f"delta is at least 1/n = {1 / settings.n:.2g}: publishing a random row satisfies that. Choose delta well below it."
        )
    if settings.epsilon > MOST_COST:
        notes.append(f"An epsilon above {MOST_COST:g} promises little; the second figure says what an attacker can do.")
    if (left := settings.n - settings.rows) > 0:
        near = _divisor(settings.n, settings.batch)
        notes.append(
            f"{left:,} of {settings.n:,} rows fill no batch and are left out: the plan is for n = {settings.rows:,}. "
            f"Batches of {near:,} would use all of them."
        )
    if settings.scheme.allocated and settings.size != settings.batch:
        notes.append(
            f"An epoch has whole batches only, here {settings.batches_an_epoch:,.0f}: they have {counted(settings.size)} expected "
            f"rows, not {settings.batch:,}, and that is what sums are divided by."
        )
    if settings.last_takes_long and settings.last and settings.convex:
        notes.append(
            f"For random batches of more than {MOST_DRAWN:,} steps, of more than {MOST_RARE:,} an epoch, for an epsilon above "
            f"{MOST_COST:g}, or for a row replaced under random allocation, this page counts on composition only. There the "
            "last-iterate bound may be less, but takes from seconds to a minute: dplateau calibrate has it."
        )
    if best.run.released == "last" and settings.d > MOST_WEIGHTS:
        notes.append(
            f"With more than {MOST_WEIGHTS:,} weights, rounding may move the last iterate by more than its bounds allow: the "
            "training loop checks that before it starts."
        )
    return notes


def _divisor(n: int, near: int) -> int:
    """The divisor of n that is closest to ``near``, on a logarithmic scale."""
    small = [k for k in range(1, math.isqrt(n) + 1) if n % k == 0]
    return min((abs(math.log(size / near)), size) for k in small for size in (k, n // k))[1]


def _risk(settings: Settings, _: int) -> dict[str, Any]:
    risk = excess_risk(settings, found(settings).run)
    bound = risk.bound
    return {
        "bound": bound,
        "shown": None if bound is None else rounded_up(bound, 3),
        "share": None if bound is None else bound / RISK_AT_START,
        "says_something": risk.says_something,
        "of": risk.of,
        "against": risk.against,
        "theorem": risk.theorem,
        "why_not": risk.why_not,
        "at_start": RISK_AT_START,
        "l2": settings.strong_convexity,
    }


def _plateau(settings: Settings, piece: int) -> dict[str, Any]:
    rows = curves.plateau(settings, piece)
    return {
        "steps": [steps for steps, _, _ in rows],
        "composition": [_finite(composed) for _, composed, _ in rows],
        "certified": [_finite(least) for _, _, least in rows],
        "chosen": found(settings).run.steps,
        "target": settings.epsilon,
        "has_last": settings.counts_on_last,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _begins(settings: Settings, _: int) -> dict[str, Any]:
    run = found(settings).run
    ends = settings.counts_on_last and bool(run.diameter or run.strong_convexity)
    steps = curves.begins(run, settings.delta) if ends and not settings.by_lot and not run.sampling.once else None
    epochs = None if steps is None else steps / settings.batches_an_epoch
    return {"steps": steps, "epochs": epochs, "ends": ends, "words": _plateau_words(settings, ends, steps, epochs)}


def _plateau_words(settings: Settings, ends: bool, steps: int | None, epochs: float | None) -> str:
    """What becomes of the cost as steps are added."""
    if settings.scheme.once:
        return "Every row is in one step only, so the cost does not grow with the steps."
    if not ends and settings.last and settings.convex and not settings.counts_on_last:
        return "Composition grows with every step."
    if not ends:
        released = "with only the last iterate of a convex loss released"
        return f"The cost grows with every step. An l2 term or a ball, {released}, lets it stop."
    if settings.by_lot:
        return "Composition grows with every step; the last-iterate bound, once it is below, hardly does."
    if steps is None or epochs is None:
        nearer = "a larger l2 coefficient, a smaller ball or longer steps bring it nearer"
        return f"The plateau begins far beyond ten million steps: {nearer}."
    passes = "" if epochs == steps else f" ({float(f'{epochs:.2g}'):,.12g} epochs)"
    return f"The plateau begins at about {steps:,} steps{passes}: from there on more steps cost at most 1 % more."


def _trade_off(settings: Settings, piece: int) -> dict[str, Any]:
    f, alarms = curves.trade_off(settings, piece), curves.false_alarms()
    attack = read_attack(f)
    return {
        "false_alarms": alarms.tolist(),
        "misses": f(alarms).tolist(),
        "one_point": epsilon_delta(settings.epsilon, settings.delta)(alarms).tolist(),
        "readings": attack.detects,
        "advantage": attack.advantage,
        "mu": found(settings).best.guarantee.mu,
    }


def _worth(settings: Settings, piece: int) -> dict[str, Any]:
    """The noise with one assumption changed and nothing else: the step size stays. None where it changes nothing."""
    name = WORTH[piece]
    there = bool(getattr(settings, name))
    other = settings.without(**{name: not there})
    noise = None
    if settings.counts_on_last or other.counts_on_last:
        step_size = min(step_size_of(settings), 2 * NUMBERS["step"].high / other.smoothness)
        with suppress(InputError):
            noise = at_step_size(other, step_size).noise
    return {"assumption": name, "there": there, **_shown(noise)}


def _poisson(settings: Settings, _: int) -> dict[str, Any]:
    """What batches of the same size, drawn at random, would need by composition."""
    noise = None
    if not (settings.scheme.full or settings.scheme.drawn):
        with suppress(InputError):
            noise = composition(settings.without(sampling=Poisson.kind)).noise
    return _shown(noise)


def _shown(noise: float | None) -> dict[str, Any]:
    return {"noise": noise, "shown": None if noise is None else rounded_up(noise, 4)}


def _plateau_pieces(settings: Settings) -> int:
    return curves.points_of(settings.scheme)[1]


PARTS: Final[dict[str, tuple[int | Callable[[Settings], int], Callable[[Settings, int], dict[str, Any]]]]] = {
    "first": (1, _first),
    "noise": (1, _noise),
    "composition": (1, _composition),
    "risk": (1, _risk),
    "trade-off": (curves.trade_off_pieces, _trade_off),
    "plateau": (_plateau_pieces, _plateau),
    "begins": (1, _begins),
    "worth": (len(WORTH), _worth),
    "poisson": (1, _poisson),
}
"""How many pieces a part has, and how a piece is made."""


def warm_up() -> None:
    """Prepare this process: the first answer is as fast as the others."""
    for sampling in ("full", "poisson"):
        settings = Settings(sampling=sampling, epochs=10)
        for part in PARTS:
            answer(settings, part, pieces(settings, part) - 1)
