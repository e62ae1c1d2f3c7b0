"""``Options``: what a training is told besides its run, its loss and the records; ``Begun``: what follows from them at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import one_of, real
from dplateau.training.charged import Budgeted
from dplateau.training.checks import check_curvature, check_helpers, check_loss, checked_l2, checked_start
from dplateau.training.exact_products import check_products
from dplateau.training.integers import BLOCK, block_of
from dplateau.training.loop import Arithmetic, State, arithmetic_of
from dplateau.training.noise import SecureGenerator

DTYPES: Final = ("float32", "float64")


class Begun(NamedTuple):
    """The l2 coefficient of each feature, the first iterate, the arithmetic, and the source of batches and noise."""

    l2: NDArray[np.float64]
    first: NDArray[np.float64]
    arithmetic: Arithmetic
    generator: SecureGenerator

    @property
    def state(self) -> State:
        """What the first step begins with."""
        start = self.arithmetic.started(self.first)
        return State(start, np.zeros_like(self.first), start)

    def check_rows(self, run: Run, loss: GeneralisedLinearLoss, longest: float, who: str) -> None:
        """Raise ``InputError`` unless the constants that the run states hold for rows up to ``longest``, which is a number."""
        if not math.isfinite(longest):
            raise InputError(f"{who} have features that are not finite numbers: clean or clip them first. Nothing was released.")
        unclipped = self.arithmetic.bits.unclipped(run, len(self.l2), float(self.arithmetic.constants.share))
        check_curvature(run, loss, unclipped, longest, self.l2)


class Options(NamedTuple):
    """What ``train``, ``train_one_pass`` and ``train_stream`` take alike; ``train`` documents it."""

    l2: float | Sequence[float] | NDArray[np.float64]
    generator: SecureGenerator | None
    dtype: str
    momentum: float
    average: float
    start: ArrayLike | None
    keep: bool
    progress: Callable[[int, int], None] | None
    ledger: Budgeted | None

    def check(self, run: Run, loss: object) -> None:
        """Raise ``InputError`` unless the run allows what is asked for."""
        check_loss(loss)
        check_helpers(self.generator, self.progress)
        one_of("dtype", self.dtype, DTYPES)
        if run.step_size is None:
            raise InputError("the run has no step_size: training needs one.")
        if run.is_phased:
            raise InputError(
                f"the run's update is {run.update!r}: its phases are not gradient steps. Use the algorithm that planned it."
            )
        if real("momentum", self.momentum, inclusive=True) >= 1:
            raise InputError(f"momentum is {self.momentum:g}: expected a number >= 0 and < 1.")
        real("average", self.average, inclusive=True, high=1.0)
        if (self.momentum or self.average) and run.update != "post-processed":
            raise InputError(
                "momentum and averaging are other updates than the run's 'sgd': use a run with update='post-processed'."
            )
        if run.is_last_iterate and self.dtype != "float64":
            raise InputError(
                "the run releases the last iterate only, and its bounds count on double precision: use dtype='float64', or "
                "released='all'."
            )
        if self.keep and run.released != "all":
            raise InputError("keep_iterates releases more than the last iterate: use a run with released='all'.")

    def begun(self, run: Run, loss: GeneralisedLinearLoss, d: int, process: int | None = None) -> Begun:
        """What d features make of it; one of several processes draws from a key of its own."""
        if (k := loss.outputs) > 1:
            block = block_of(d, k)
            if run.unit == "row":
                block = min(block, -(-run.n // BLOCK) * BLOCK)
            parts = -(-block // BLOCK)
            check_products({((block, d), (d, k)), ((k, BLOCK), (BLOCK, d)), ((parts, k, BLOCK), (parts, BLOCK, d))})
        l2, first = checked_l2(self.l2, d), checked_start(run, self.start, loss.weights_shape(d))
        source = SecureGenerator() if self.generator is None else self.generator
        source = source if process is None else source.for_process(process)
        return Begun(l2, first, arithmetic_of(run, loss, l2, self.momentum, first), source)

    def agreed(self, begun: Begun) -> tuple[Any, ...]:
        """What several processes must be told alike."""
        return self.dtype, self.momentum, self.average, self.keep, begun.l2.tolist(), begun.first.tolist()
