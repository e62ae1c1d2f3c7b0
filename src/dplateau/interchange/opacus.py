# pyright: reportMissingImports=false, reportUntypedBaseClass=false
"""An exact, certified accountant for Opacus: after this import, ``PrivacyEngine(accountant="dplateau")`` uses it.

It covers what Opacus does by default: Poisson sampling, with Opacus's own sampler or a finer one, and one noisy sum of clipped
gradients a step, under add/remove. Where it can see that something else ran, its epsilon is infinite:

- ``poisson_sampling=False``: batches of a shuffled loader, which Opacus's own accountants take for Poisson samples. Seen by batch
  sizes that do not vary, or by accumulated batches; not seen where ``BatchMemoryManager`` splits the batches.
  ``from_opacus(..., sampling=dp.Shuffled(b))`` accounts for them.
- ``clipping="adaptive"`` or ``PrivacyEngineAdaptiveClipping``: Opacus 1.6.0 counts the noisy share of clipped examples as if one
  record changed it by half as much as it does, and divides it by the realised batch size, which nothing accounts for.
- A scheduler lowers ``max_grad_norm``, which scales the noise, while per-layer and ghost clipping go on with the old norm.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from dplateau.interchange.batch_sizes import BatchSizes
from dplateau.interchange.noisy_sums import Block, NoisySum, merged, spent_delta, spent_epsilon, to_runs, written
from dplateau.spec import Cyclic, FullBatch, InputError, PrivacyWarning, Run, Runs, Sampling, Shuffled
from dplateau.spec.arguments import integer, real
from dplateau.spec.missing import explained

with explained():
    import torch
    from opacus.accountants import IAccountant
    from opacus.accountants.registry import register_accountant
    from opacus.optimizers import AdaClipDPOptimizer, DPOptimizer

MECHANISM: Final = "dplateau"
GRAIN: Final = 2**24
"""``torch.rand`` gives multiples of 1/2^24, so a record joins a batch with the next multiple of its nominal rate as probability."""
NOT_POISSON: Final = (
    "the batches are no Poisson samples (poisson_sampling=False?), so no bound for Poisson sampling covers them. "
    "Use from_opacus(..., sampling=dp.Shuffled(batch_size)) for batches of a shuffled data loader."
)
ADAPTIVE: Final = (
    'no bound covers Opacus\'s adaptive clipping: use PrivacyEngine, not PrivacyEngineAdaptiveClipping, with clipping="flat" or '
    '"per_layer".'
)

LEFT_BEHIND: Final = (
    "max_grad_norm scales the noise and was lowered, but Opacus still clips to larger norms: only flat clipping follows it. "
    "Do not change max_grad_norm in training."
)

COARSE: Final = (
    "torch's default dtype has half precision: Opacus then samples with numbers of 8 or 11 bits, more often than it is told. "
    "Keep float32 as the default, and give the model its own dtype."
)


def drawn_rate(rate: float) -> float:
    """The probability with which Opacus's sampler takes a record, or ``rate`` if that is larger.

    The sampler compares uniform numbers of 24 bits with ``rate``, if torch's default dtype is float32 or float64.
    """
    rate = real("sample_rate", rate, inclusive=True, high=1.0)
    compared = max(rate, float(np.float32(rate)))  # torch compares in single precision.
    return math.ceil(compared * GRAIN) / GRAIN


class PlateauAccountant(IAccountant):
    """An Opacus accountant whose epsilons are upper ends of enclosures of the exact composition.

    ``history`` has Opacus's entries (noise multiplier, sampling rate, number of steps). Neighbours differ by the presence of one
    record; n, and with it the batch size that gradients are divided by, is public. Rates count as they are drawn (``drawn_rate``).

    Examples
    --------
    >>> accountant = PlateauAccountant()
    >>> accountant.history = [(1.3, 256 / 60_000, 3516)]
    >>> round(accountant.get_epsilon(1e-5), 4)
    0.8645
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: list[tuple[float, float, int]] = []
        self.uncovered: str | None = None

    @classmethod
    def mechanism(cls) -> str:
        """The name for ``PrivacyEngine(accountant=...)``: "dplateau"."""
        return MECHANISM

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step."""
        noise, rate = float(noise_multiplier), float(sample_rate)
        if self.history and self.history[-1][:2] == (noise, rate):
            self.history[-1] = (noise, rate, self.history[-1][2] + 1)
        else:
            self.history.append((noise, rate, 1))

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What Opacus calls after each step: counts it, and looks whether it is one that the accountant covers."""
        count = super().get_optimizer_hook_fn(sample_rate)
        seen: BatchSizes | None = None
        known = True
        first: float | None = None

        def hook(optimizer: Any) -> None:
            nonlocal seen, known, first
            count(optimizer)
            if torch.get_default_dtype().itemsize < 4:
                self._refuse(COARSE)
            if is_adaptive(optimizer):
                self._refuse(ADAPTIVE)
            first = float(optimizer.max_grad_norm) if first is None else first
            if is_left_behind(optimizer, first):
                self._refuse(LEFT_BEHIND)
            if optimizer.accumulated_iterations > 1:  # Opacus forbids this where it samples.
                self._refuse(NOT_POISSON)
            size = _batch_size(optimizer)
            known = known and size is not None
            if not known or size is None:
                return
            seen = seen or BatchSizes(sample_rate, float(optimizer.expected_batch_size or 0))
            seen.saw(size)
            if seen.too_regular:
                self._refuse(NOT_POISSON)

        return hook

    def _refuse(self, why: str) -> None:
        if self.uncovered is None:
            self.uncovered = why
            warnings.warn(f"epsilon is now infinite: {why}", PrivacyWarning, stacklevel=2)

    def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:
        """The certified epsilon of the steps so far.

        0 for no step, infinity where there was no noise or where what ran is not covered. Other arguments, which Opacus passes on,
        have no effect.

        Raises
        ------
        InputError
            ``delta`` is not in [0, 1], or the history has an entry that is no (noise, rate, steps).
        """
        if self.uncovered is not None:
            warnings.warn(f"epsilon is infinite: {self.uncovered}", PrivacyWarning, stacklevel=2)
            return math.inf
        return spent_epsilon(_counts(self.history), "add-remove", delta)

    def get_delta(self, epsilon: float) -> float:
        """The certified delta of the steps so far; 1 where ``get_epsilon`` is infinite at every delta."""
        return 1.0 if self.uncovered is not None else spent_delta(_counts(self.history), "add-remove", epsilon)

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    def state_dict(self, destination: Any = None) -> Any:
        """Also records whether something ran that is not covered."""
        state = super().state_dict(destination)
        state["uncovered"] = self.uncovered
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` gave.

        Raises
        ------
        ValueError
            It is not from this accountant, or its history is none.
        """
        history = _entries((state_dict or {}).get("history", []))  # Checked, and a copy, before anything changes.
        super().load_state_dict(state_dict)
        self.history, self.uncovered = history, state_dict.get("uncovered")


def from_opacus(
    accountant: IAccountant | Sequence[tuple[float, float, int]],
    *,
    n: int,
    sampling: Sampling | None = None,
    adjacency: str = "add-remove",
) -> Run | Runs:
    """The run that an Opacus accountant recorded, for ``dplateau.account`` and all that reads runs.

    Parameters
    ----------
    accountant : IAccountant or list of (noise multiplier, sampling rate, steps)
        ``privacy_engine.accountant``, whichever it is, or its history.
    n : int
        Number of records: ``len(data_loader.dataset)``.
    sampling : Shuffled, Cyclic or FullBatch, optional
        What the data loader did, for ``poisson_sampling=False``: ``Shuffled(b)`` for ``DataLoader(batch_size=b, shuffle=True)``,
        ``Cyclic(b)`` without shuffling. Every epoch but the last must have been a whole one. Without it: Opacus's Poisson sampling.
    adjacency : {"add-remove", "replace"}, default "add-remove"
        As in ``Run``.

    Returns
    -------
    Run or Runs
        With Poisson rates as they were drawn: rounded up to a multiple of 1/2^24.

    Raises
    ------
    InputError
        No step was made, one had no noise, Opacus's accountant saw something that the run would not cover, or the loader's number
        of batches contradicts ``n`` and ``sampling`` (``drop_last=True`` does).
    """
    entries = [entry for entry in _entries(getattr(accountant, "history", accountant)) if entry[2]]
    n = integer("n", n)
    uncovered = getattr(accountant, "uncovered", None)
    if uncovered is not None and (sampling is None or uncovered != NOT_POISSON):
        raise InputError(uncovered)
    if not entries:
        raise InputError("the accountant's history is empty: no step was made, so there is no run.")
    if sampling is None:
        runs = to_runs(_poisson(entries), n, adjacency)
        return runs[0] if len(runs) == 1 else Runs(runs)
    if not isinstance(sampling, (Shuffled, Cyclic, FullBatch)):
        raise InputError(f"sampling is {sampling!r}: expected dp.Shuffled, dp.Cyclic or dp.FullBatch, as data loaders do.")
    steps = sampling.epoch_steps(n)
    if wrong := [rate for _, rate, _ in entries if not math.isclose(rate * steps, 1.0, rel_tol=1e-9)]:
        raise InputError(
            f"the history has the sampling rate {wrong[0]:g}, but the loader of {n} records and {sampling!r} has 1/{steps:g}. "
            "With drop_last=True or accumulated batches no run describes the training."
        )
    noises, counts = [noise for noise, _, _ in entries], [count for _, _, count in entries]
    if 0.0 in noises:
        raise InputError("a step had no noise: no run has that, because its privacy loss is infinite.")
    return Run(n=n, sampling=sampling, steps=sum(counts), noise_multiplier=written(noises, counts), adjacency=adjacency)


def is_adaptive(optimizer: Any) -> bool:
    """Whether the clip norm follows the records: by an optimizer for that, or by ghost clipping, which then leaves a mark."""
    return isinstance(optimizer, AdaClipDPOptimizer) or hasattr(optimizer, "_adjusted_noise_multiplier")


def is_left_behind(optimizer: Any, first: float = 0.0) -> bool:
    """Whether the noise was scaled by less than what gradients are clipped to, as far as the optimizer tells.

    Ghost clipping keeps its norm elsewhere: there ``first``, an earlier ``max_grad_norm``, stands for it.
    """
    if type(optimizer).clip_and_accumulate is DPOptimizer.clip_and_accumulate:  # Flat: it clips to max_grad_norm itself.
        return False
    clipped = math.hypot(*getattr(optimizer, "max_grad_norms", [first]))
    return optimizer.max_grad_norm < clipped * (1 - 1e-6)  # Opacus computes in single precision.


def _batch_size(optimizer: Any) -> int | None:
    """The size of the batch of this step; None where it was split, or where the optimizer keeps no gradients of examples."""
    if getattr(optimizer, "_is_last_step_skipped", True):
        return None
    try:
        return len(optimizer.grad_samples[0])
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


def _entries(history: Any) -> list[tuple[float, float, int]]:
    """The entries of a history, checked."""
    try:
        rows = [(noise, rate, steps) for noise, rate, steps in history]
    except (TypeError, ValueError):
        raise InputError("the history is not a list of (noise multiplier, sampling rate, number of steps).") from None
    return [
        (
            real("noise_multiplier", noise, inclusive=True),
            real("sample_rate", rate, inclusive=True, high=1.0),
            integer("number of steps", steps, low=0),
        )
        for noise, rate, steps in rows
    ]


def _poisson(entries: Sequence[tuple[float, float, int]]) -> list[Block]:
    return merged((NoisySum(noise, rate=drawn_rate(rate)), steps) for noise, rate, steps in entries if rate and steps)


def _counts(history: Any) -> Counter[NoisySum]:
    counts: Counter[NoisySum] = Counter()
    for one, steps in _poisson(_entries(history)):
        counts[one] += steps
    return counts


register_accountant(MECHANISM, PlateauAccountant, force=True)
