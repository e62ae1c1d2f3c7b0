"""What every last-iterate bound requires of a run, with one wording for each missing piece."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dplateau.accounting.gaussian import Array
from dplateau.spec import Run, Sampling
from dplateau.spec.schedule import largest

_SHORT: Final = 1e-100
"""Lengths that are shorter, or longer than its inverse, have no squares that could be added up: mu could be rounded to 0."""

_CHECKED: Final = 1e-12
"""Training checks what a run states of curvature to this part of it."""

_MOST: Final = 2**62
"""Records or steps, which are counted in 64 bits."""


def contraction(run: Run, step_size: Array | float, least: Array | float = 1.0, most: Array | float = 1.0) -> Array:
    """The Lipschitz constant of a gradient step whose batch has between ``least`` and ``most`` times its public size.

    The Hessian of the step's objective is that of the l2 term and, for the rest, between ``least m`` and ``most M``; no larger
    share of m and no smaller one of M than 1 is counted on, which covers l2 terms that are added once but not stated, of losses
    that are convex without them. Where losses are not known to be convex it may be anything between minus and plus ``most M``, and
    the constant exceeds 1.

    Training takes rows that are more curved than M by ``_CHECKED``, but none that makes a step of up to 2/M expand.
    """
    m, M, once = run.strong_convexity, run.smoothness or math.inf, run.l2
    small, large = np.minimum(1.0, least), np.maximum(1.0, most)
    if m is None:
        return 1 + step_size * (M * (1 + _CHECKED) * large)
    # Exactly m and M for a batch of its public size, or rounding would make a step of 2/M expand.
    low, high = m - (m - once) * (1 - small), M + (M - once) * (large - 1)
    steep = step_size * high
    end = np.where((large == 1) & (steep <= 2), 1.0, math.inf)
    return np.maximum(np.abs(1 - step_size * low), np.minimum(np.maximum(1 - steep, steep * (1 + _CHECKED) - 1), end))


def other_sampling(run: Run, *covered: type[Sampling]) -> str | None:
    """Why a theorem for the schemes ``covered`` does not cover the run's; None where it does."""
    if isinstance(run.sampling, covered):
        return None
    names = ", ".join(scheme.__name__ for scheme in covered)
    return f"it is for sampling {names}, the run's is {type(run.sampling).__name__}."


def missing(
    run: Run,
    *,
    diameter: bool = False,
    strongly_convex: bool = False,
    forgets: bool = False,
    convex: bool = True,
    samplings: tuple[type[Sampling], ...] = (),
) -> str | None:
    """Why no last-iterate bound covers ``run``, and how to meet what is missing; None where all is there.

    ``diameter`` and ``strongly_convex`` ask for these as well, ``forgets`` for one of them; without ``convex`` losses need not be
    so, if iterates are projected; ``samplings``, if any, lists the covered schemes.
    """
    if samplings and (reason := other_sampling(run, *samplings)):
        return reason
    if run.released != "last":
        return 'all iterates are released. Set released="last" if only the last one is.'
    if run.update != "sgd":
        return "the update is not a plain gradient step (momentum, Adam or averaging): no last-iterate bound covers it."
    unknown = run.strong_convexity is None
    if unknown and convex:
        return "the losses are not known to be convex. State strong_convexity (0 for convex)."
    if unknown and run.diameter is None:
        return (
            "the losses are not known to be convex, and the iterates are not projected. State strong_convexity, or give a diameter."
        )
    if run.smoothness is None or run.step_size is None:
        absent = " and ".join(name for name in ("smoothness", "step_size") if getattr(run, name) is None)
        return f"{absent} is not stated. A gradient step is a contraction up to step_size 2/smoothness."
    if reason := _out_of_range(run):
        return reason
    if (longest := largest(run.step_size)) * run.smoothness > 2 and not unknown:
        return (
            f"step_size {longest:g} exceeds 2/smoothness = {2 / run.smoothness:g}: the gradient step is not a contraction. "
            "Lower step_size."
        )
    if strongly_convex and not run.strong_convexity:
        return "the losses are not strongly convex. Add an l2 term and state strong_convexity."
    if diameter and run.diameter is None:
        return "the iterates are not projected on a bounded set. Give the run a diameter."
    if forgets and run.diameter is None and not run.strong_convexity:
        return (
            "the iterates are not projected on a bounded set, and the losses are not strongly convex: the start is not forgotten. "
            "Give the run a diameter, or add an l2 term and state strong_convexity."
        )
    return None


def _out_of_range(run: Run) -> str | None:
    """Why steps of ``run`` cannot be counted, or lengths squared; None where they can."""
    if max(run.n, run.steps) > _MOST:
        return f"there are {max(run.n, run.steps):.3g} records or steps: last-iterate bounds count up to {_MOST:.3g}. Give fewer."
    step, noise = run.table.step_size, run.table.noise
    shortest = float(step.min()) * min(float(noise.min()), 1.0) * run.clip_norm / run.n
    farthest = float(step.max()) * max(float(noise.max()), 1.0) * run.clip_norm
    if all(_SHORT <= one <= 1 / _SHORT for one in (shortest, farthest, 1.0 if run.diameter is None else run.diameter)):
        return None
    return (
        f"steps and noise move the weights by {shortest:g} to {farthest:g}, or the diameter is such: squares of these leave double "
        "precision. Use other units."
    )
