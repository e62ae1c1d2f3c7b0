# pyright: reportMissingImports=false, reportUntypedBaseClass=false
"""An Opacus training that a ledger pays for: reserved before its first batch, and stopped where the reservation ends.

with reserved_steps(engine, optimizer, batches, steps=epochs * len(batches), ledger=account, delta=1e-5) as training:
    ...  # the loop
training.certificate
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from dplateau._account import account, checked_delta
from dplateau.certificate import Certificate, make_certificate
from dplateau.interchange.opacus import ADAPTIVE, from_opacus, is_adaptive
from dplateau.interchange.opacus_training import SecureDraws, clipped, opacus_training
from dplateau.spec import InputError, Run, Runs, Sampling
from dplateau.spec.arguments import integer
from dplateau.spec.missing import explained
from dplateau.spec.schedule import entries, schedule
from dplateau.training.charged import Budgeted

with explained():
    from opacus import PrivacyEngine
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping, DPPerLayerOptimizer

COUNTED: Final = (DPOptimizer, DPPerLayerOptimizer, DPOptimizerFastGradientClipping)
"""Optimizers of one process that add the noise of a step once, by ``add_noise``."""

OTHER_LOADER: Final = (
    "the data loader has another number of batches than the one that make_private gave: pass that one, before BatchMemoryManager."
)


@dataclass(eq=False)
class ReservedSteps:
    """Steps of an Opacus training that a ledger has paid for.

    Attributes
    ----------
    run : Run or Runs
        What was reserved.
    noise : tuple of float
        The noise multiplier of every step.
    rate : float
        The sampling rate.
    clip_norm : float
        The clip norm.
    made : int
        Steps that were made.
    certificate : Certificate or None
        Of the training, when the block has ended and all steps were made.
    """

    run: Run | Runs
    noise: tuple[float, ...]
    rate: float
    clip_norm: float
    made: int = 0
    certificate: Certificate | None = field(default=None)

    @property
    def left(self) -> int:
        """Steps that may still be made."""
        return len(self.noise) - self.made

    def check(self, optimizer: Any, history: Sequence[Any]) -> None:
        """Raise unless the next step, whose noise was not drawn, was reserved."""
        if not self.left:
            raise InputError(
                f"{self.made:,} steps were reserved and all of them were made: nothing was released of this one. Stop training, or "
                "reserve more steps for a new PrivacyEngine."
            )
        if is_adaptive(optimizer):
            raise InputError(ADAPTIVE)
        if not optimizer.noise_multiplier >= self.noise[self.made]:
            raise InputError(
                f"step {self.made + 1:,} has noise_multiplier {optimizer.noise_multiplier:g}, and {self.noise[self.made]:g} was "
                "reserved: pass what a noise scheduler will do as noise=, or leave the noise as it is."
            )
        if optimizer.max_grad_norm != self.clip_norm:
            raise InputError(
                f"step {self.made + 1:,} has max_grad_norm {optimizer.max_grad_norm:g}, and {self.clip_norm:g} was reserved: leave "
                "the clip norm as it is."
            )
        if history and history[-1][1] != self.rate:
            raise InputError(OTHER_LOADER)


@contextmanager
def reserved_steps(
    engine: PrivacyEngine,
    optimizer: DPOptimizer,
    data_loader: Any,
    *,
    steps: int,
    ledger: Budgeted,
    delta: float,
    noise: Run | Sequence[float] | None = None,
    draws: SecureDraws | None = None,
    sampling: Sampling | None = None,
    adjacency: str = "add-remove",
) -> Iterator[ReservedSteps]:
    """Reserve the steps of an Opacus training, let no others happen, and commit the certificate when they were made.

    The steps are taken out of the budget before the block begins. A step that was not reserved raises before its noise is drawn,
    within the block and after it. Fewer steps may be made: what was reserved stays spent, and it is committed without a
    certificate. If the block raises, nothing is committed.

    Parameters
    ----------
    engine, optimizer, data_loader : PrivacyEngine, DPOptimizer, DataLoader
        What trained nothing yet, and what its ``make_private`` gave. ``data_loader`` may be given to ``BatchMemoryManager`` later.
    steps : int
        Steps of the optimizer: ``epochs * len(data_loader)``.
    ledger : Account
        The account of the data set, see ``dplateau.Ledger``.
    delta : float
        Of the certificate.
    noise : Run or sequence of float, optional
        The noise multiplier of every step, where a scheduler changes it, as ``PlannedNoise`` takes it. By default the optimizer's.
    draws : SecureDraws, optional
        What ``draw_securely`` gave. Without it the certificate certifies nothing.
    sampling, adjacency
        As in ``from_opacus``.

    Yields
    ------
    ReservedSteps
        What was reserved, how much of it is left, and in the end the certificate.

    Raises
    ------
    BudgetError
        The budget does not cover the steps. Nothing is reserved.
    InputError
        The optimizer is not known to add its noise once, steps were made before, ``noise`` has another length, or ``delta`` or the
        run is not as expected; in the block, a step was not reserved; after it, as ``opacus_training``, and
        where the engine counted steps of another optimizer, or at another rate.
    """
    if type(optimizer) not in COUNTED or optimizer.step_hook is None or engine.dataset is None:
        raise InputError(
            f"the steps of a {type(optimizer).__name__} cannot be counted: expected engine and optimizer of one make_private, in "
            "one process and without adaptive clipping."
        )
    if made := sum(entry[2] for entry in engine.accountant.history):
        raise InputError(f"the accountant counted {made:,} steps before: make a new PrivacyEngine, and reserve its steps first.")
    count, rate, n = integer("steps", steps), 1 / len(data_loader), len(engine.dataset)
    if optimizer.expected_batch_size != int(n * rate):
        raise InputError(OTHER_LOADER)
    checked_delta(delta, n)
    planned = [optimizer.noise_multiplier] * count if noise is None else noise
    z = entries(schedule("noise", planned.table.written().noise.tolist() if isinstance(planned, Run) else planned))
    if len(z) != count:
        raise InputError(f"noise has {len(z):,} entries, and steps is {count:,}: expected one a step.")
    run = from_opacus([(one, rate, 1) for one in z], n=n, sampling=sampling, adjacency=adjacency)
    clip_norm = float(optimizer.max_grad_norm)
    reserved = ReservedSteps(clipped(run, clip_norm), z, rate, clip_norm)
    reservation, add_noise = ledger.reserve(reserved.run), optimizer.add_noise

    def guarded() -> None:
        reserved.check(optimizer, engine.accountant.history)
        reserved.made += 1  # First: what fails within may have drawn some noise.
        add_noise()

    optimizer.add_noise = guarded  # And it stays: what comes after the block was not reserved.
    yield reserved
    counted = sum(entry[2] for entry in engine.accountant.history)
    if counted > reserved.made:
        raise InputError(
            f"the engine counted {counted:,} steps, of which {reserved.made:,} were reserved: another optimizer made "
            "some, of a second make_private perhaps. Reserve them too: they cost the same records."
        )
    if any(entry[1] != rate for entry in engine.accountant.history):  # Only this looks at the last step.
        raise InputError(OTHER_LOADER)
    if reserved.left:
        reservation.commit()
        return
    training = opacus_training(engine, optimizer, draws=draws, sampling=sampling, adjacency=adjacency)
    reserved.certificate = make_certificate(account(training.run, delta), training)  # pyright: ignore[reportArgumentType]
    reservation.commit(reserved.certificate if training.run.digest == reserved.run.digest else None)
