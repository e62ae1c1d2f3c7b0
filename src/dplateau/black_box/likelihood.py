"""The log likelihood ratio of all iterates of a run on ``one_record`` data, for every batch scheme.

With the record's gradient of clip norm C known, a step's noisy sum, along that gradient and in units of C, is N(1, z^2) if the
record is in the batch and N(0, z^2) if not; with its opposite in its place, N(-1, z^2). What is not known is when the record was
drawn: the ratio is of mixtures. No test of the iterates separates the two data sets better (Neyman and Pearson),
if the noise is what the run says. That it is drawn anew in each step is looked at beside it.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dplateau.black_box.scores import Array, Score
from dplateau.spec import Run


def log_likelihood_ratio(run: Run, gradient: NDArray[np.float64]) -> Score:
    """The score of releases ``(k, (steps + 1) d)``: all iterates, the start first.

    Parameters
    ----------
    run : Run
        With constant step size, noise and batch sizes. The record is the first one.
    gradient : array of shape (d,)
        The unit vector of the record's gradient.
    """
    z = float(run.table.written().noise[0])
    without = 0.0 if run.adjacency == "add-remove" else -1.0

    def score(releases: Array) -> Array:
        sums = _sums(run, gradient, releases)
        log_of = {mean: -((sums - mean) ** 2) / (2 * z**2) for mean in (0.0, 1.0, without)}
        return _mixed(run, log_of[1.0] - log_of[0.0]) - _mixed(run, log_of[without] - log_of[0.0])

    return score


def equal_steps(run: Run, gradient: NDArray[np.float64]) -> Score:
    """The score that counts pairs of steps with the same noisy sum, to a thousandth of the clip norm, in the same releases.

    With noise that is used twice, two steps differ by whether the record is in their batches, and not at all without it.
    """

    def score(releases: Array) -> Array:
        sums = _sums(run, gradient, releases).T
        return np.array([abs(one - other) < 1e-3 for one, other in combinations(sums, 2)]).sum(axis=0, dtype=np.float64)

    return score


def _sums(run: Run, gradient: NDArray[np.float64], releases: Array) -> Array:
    """The noisy sum of each step along the gradient, in clip norms: shape ``(k, steps)``."""
    table = run.table.written()
    iterates = releases.astype(np.float64).reshape(len(releases), run.steps + 1, len(gradient)) @ gradient
    return -np.diff(iterates, axis=1) / (table.step_size[0] * run.clip_norm / table.size)


def _mixed(run: Run, ratios: Array) -> Array:
    """The log ratio of "the record is there" to "it is in no batch", from that of each step with it in the batch."""
    sampling = run.sampling
    if sampling.drawn:
        q = run.table.only.rate
        return np.logaddexp(math.log1p(-q) if q < 1 else -np.inf, math.log(q) + ratios).sum(axis=1)
    epoch = sampling.period(run.n, run.steps)
    if sampling.ordered or sampling.full:
        return ratios[:, ::epoch].sum(axis=1)
    batches = ratios.reshape(len(ratios), -1, epoch)
    return (np.asarray(logsumexp(batches, axis=2)) - math.log(epoch)).sum(axis=1)
