# pyright: reportMissingImports=false, reportUntypedBaseClass=false
"""An Opacus noise scheduler that carries out a planned schedule, step by step, and nothing beyond it.

With the accountant of ``dplateau.interchange.opacus`` the certified epsilon is then that of the planned run, but for the rate:
Opacus samples a little more often than it is told (``drawn_rate``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dplateau.spec import InputError, Run
from dplateau.spec.missing import explained
from dplateau.spec.schedule import entries, schedule

with explained():
    from opacus.schedulers import _NoiseScheduler  # pyright: ignore[reportPrivateUsage]


class PlannedNoise(_NoiseScheduler):
    """Gives step t of the optimizer the noise multiplier z_t. Call ``step()`` after every step of the optimizer.

    A step of the optimizer that the plan does not have raises ``InputError`` before the weights change: one after the last, or a
    second one with the same entry, because ``step()`` was not called. Batches that Opacus splits count as one step.

    Parameters
    ----------
    optimizer : DPOptimizer
        What ``PrivacyEngine.make_private`` returned. A step hook that is attached later takes the guard off; the engine attaches
        its accountant before.
    noise : Run or sequence of float
        z_1, ..., z_T.
    last_epoch : int, default -1
        Number of steps of the plan that were made, less one.

    Raises
    ------
    InputError
        A noise multiplier is not positive, or there are none.
    ValueError
        The optimizer is none of Opacus's.

    Examples
    --------
    With ``run`` a calibrated plan for the loader's records and rate (its step sizes are for a ``LambdaLR`` of torch):

    >>> scheduler = PlannedNoise(optimizer, noise=run)  # doctest: +SKIP
    >>> for rows, target in loader:  # doctest: +SKIP
    ...     train_on(rows, target)  # ends with optimizer.step()
    ...     scheduler.step()
    """

    def __init__(self, optimizer: Any, *, noise: Run | Sequence[float], last_epoch: int = -1) -> None:
        planned = noise.table.written().noise.tolist() if isinstance(noise, Run) else noise
        self.planned = entries(schedule("noise", planned))
        self.made = False
        super().__init__(optimizer, last_epoch=last_epoch)
        before = optimizer.step_hook

        def guard(optimizer: Any) -> None:
            self._check()
            if before is not None:
                before(optimizer)
            self.made = True

        optimizer.attach_step_hook(guard)

    @property
    def left(self) -> int:
        """Steps of the plan that are still to be made."""
        return max(len(self.planned) - self.last_epoch - self.made, 0)

    def get_noise_multiplier(self) -> float:
        """The noise of the next step; after the last one that of the last one, which no step will use."""
        return self.planned[min(self.last_epoch, len(self.planned) - 1)]

    def step(self) -> None:
        """Go on to the next entry of the plan."""
        super().step()
        self.made = False

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` gave.

        Raises
        ------
        InputError
            It is of another plan.
        """
        if tuple(state_dict.get("planned", ())) != self.planned:
            raise InputError(
                "the state is that of another noise schedule: make the scheduler from the plan that the training began with."
            )
        super().load_state_dict(dict(state_dict))
        self.optimizer.noise_multiplier = self.get_noise_multiplier()

    def _check(self) -> None:
        steps = len(self.planned)
        if self.last_epoch >= steps or (self.made and self.last_epoch == steps - 1):
            raise InputError(f"the plan has {steps} steps and all of them were made: stop training, or plan more steps.")
        if self.made:
            raise InputError(
                f"a second step was made with entry {self.last_epoch + 1} of the plan: call step() of the noise scheduler after "
                "every step of the optimizer."
            )
