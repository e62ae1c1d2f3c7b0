# pyright: reportMissingImports=false, reportPrivateUsage=false, reportUntypedBaseClass=false
"""What certifies a training with Opacus: its run, what that rests on, and batches and noise that nobody can recompute.

    draws = draw_securely(optimizer, batches)  # after make_private, before the first step
    ...
    training = opacus_training(engine, optimizer, draws=draws)
    certificate = make_certificate(dp.account(training.run, delta), training)

Without ``draw_securely`` everything works too, but the certificate certifies nothing: torch's default generator is not
cryptographic. On a CPU it is a Mersenne Twister: what it gives is a linear function of its state, and ``torch.manual_seed`` uses 32
bits of the seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from dplateau.interchange.opacus import ADAPTIVE, LEFT_BEHIND, from_opacus, is_adaptive, is_left_behind
from dplateau.spec import Assumption, By, Generator, InputError, Key, Run, Runs, Sampling, Training
from dplateau.spec.assumption import (
    Arithmetic,
    Batches,
    Clipping,
    Divisor,
    Features,
    Noise,
    Order,
    PublicConstants,
    Rounding,
    SeparateExamples,
    Steps,
)
from dplateau.spec.missing import explained
from dplateau.spec.required import SECURE_DRAWS
from dplateau.spec.runs import runs_of
from dplateau.training import SecureGenerator

with explained():
    import torch
    from opacus import PrivacyEngine
    from opacus.data_loader import DPDataLoader
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

TORCH: Final = Generator("torch's generator", Key.NOT_CRYPTOGRAPHIC)
TORCHCSPRNG: Final = Generator("torchcsprng", Key.OPERATING_SYSTEM)


@dataclass(eq=False)
class SecureDraws:
    """A generator that an Opacus training draws from, and what it drew.

    Attributes
    ----------
    optimizer : DPOptimizer
        The optimizer whose noise is drawn.
    records : int
        How many records batches are drawn from.
    rate : float
        The rate at which Opacus counts the batches: the probability with which each record joins one, or slightly more.
    generator : SecureGenerator
        The source.
    steps, batches, empty : int
        How many steps got their noise, how many batches were drawn, and how many of these were empty.
    noise : Counter of float
        How many steps got noise of each multiplier.
    clip_norms, divisors : set of float
        The clip norms that scaled the noise, and what noisy sums were divided by.
    """

    optimizer: Any
    records: int
    rate: float
    generator: SecureGenerator = field(default_factory=SecureGenerator)
    steps: int = 0
    batches: int = 0
    empty: int = 0
    noise: Counter[float] = field(default_factory=Counter[float])
    clip_norms: set[float] = field(default_factory=set[float])
    divisors: set[float] = field(default_factory=set[float])


class _SecureSampler(UniformWithReplacementSampler):
    """Opacus's Poisson sampler, with coins that show heads exactly with the rate, and cannot be guessed."""

    def __init__(self, like: UniformWithReplacementSampler, draws: SecureDraws) -> None:
        super().__init__(num_samples=like.num_samples, sample_rate=like.sample_rate, steps=like.steps)
        self.draws = draws

    def __iter__(self) -> Iterator[list[int]]:
        optimizer = self.draws.optimizer
        if optimizer._is_last_step_skipped or optimizer._step_skip_queue:
            raise InputError(
                "a batch that BatchMemoryManager split was left before its last part: what was summed of it would be added to the "
                "next one, and a record in both would count twice. Finish every batch that was begun."
            )
        for _ in range(self.steps):
            found = self.draws.generator.bernoulli_positions(self.num_samples, self.sample_rate).tolist()
            self.draws.batches += 1
            self.draws.empty += not found
            yield found


def _add_noise(optimizer: Any, draws: SecureDraws) -> None:
    """What ``DPOptimizer.add_noise`` does, with other noise, added in double precision before it is rounded."""
    scale = optimizer.noise_multiplier * optimizer.max_grad_norm
    for weights in optimizer.params:
        total = weights.summed_grad
        _check_processed_flag(total)
        noise = torch.from_numpy(scale * draws.generator.normal((*total.shape,))).to(total.device)
        weights.grad = (total.to(noise.dtype) + noise).to(total.dtype).view_as(weights)
        _mark_as_processed(total)
    draws.steps += 1
    draws.noise[float(optimizer.noise_multiplier)] += 1
    draws.clip_norms.add(float(optimizer.max_grad_norm))
    draws.divisors.add(1.0 if optimizer.loss_reduction == "sum" else float(optimizer.expected_batch_size))


def draw_securely(optimizer: DPOptimizer, data_loader: DPDataLoader) -> SecureDraws:
    """Make an Opacus training draw its batches and its noise from a cryptographic key stream, with a key from the operating system.

    Both objects are changed in place. Call it between ``make_private`` and the first step.

    Parameters
    ----------
    optimizer, data_loader : DPOptimizer, DPDataLoader
        What ``make_private`` gave, with Poisson sampling, in one process.

    Returns
    -------
    SecureDraws
        For ``opacus_training``.

    Raises
    ------
    InputError
        The optimizer adds its noise in a way of its own (several processes, ghost or adaptive clipping), its steps
        were reserved before, or the batches are no Poisson samples.
    """
    if not isinstance(optimizer, DPOptimizer) or type(optimizer).add_noise is not DPOptimizer.add_noise:
        raise InputError(
            f"the optimizer is a {type(optimizer).__name__}, which is not known to add plain noise once: expected what make_private"
            ' gives in one process with clipping="flat" or "per_layer" and grad_sample_mode="hooks".'
        )
    sampler: Any = getattr(data_loader, "batch_sampler", None)
    if type(sampler) is not UniformWithReplacementSampler:
        raise InputError(
            "the data loader does not draw Poisson samples: expected what make_private gives with poisson_sampling=True in one"
            " process, before it was given to BatchMemoryManager."
        )
    if "add_noise" in vars(optimizer):
        raise InputError("the optimizer's steps are watched already (reserved_steps): call draw_securely first, and once.")
    # Opacus samples with rate 1/93 and makes int(1 / rate) = 92 batches of it, and then counts each at the rate 1/92.
    draws = SecureDraws(optimizer, sampler.num_samples, max(float(sampler.sample_rate), 1 / len(sampler)))
    optimizer.add_noise = partial(_add_noise, optimizer, draws)
    # A data loader lets nobody change its sampler, because it would not notice; this one has no state that it could miss.
    object.__setattr__(data_loader, "batch_sampler", _SecureSampler(sampler, draws))
    return draws


@dataclass(frozen=True)
class OpacusTraining:
    """What an Opacus training ran, and what its guarantee rests on, for ``dplateau.certificate.make_certificate``.

    Attributes
    ----------
    run : Run or Runs
        The run that the accountant recorded.
    assumptions : tuple of Assumption
        Only batches and noise can be "enforced", by ``draw_securely``; for all else Opacus, or who trained, vouches.
    generator : Generator
        The source of batches and noise.
    dtype : str
        Working precision.
    weights : tuple of arrays
        What was trained, in the order of the optimizer's parameters. ``check_weights(certificate, list(model.parameters()))`` tells
        whether a model is the certified one, if all of its parameters were trained.
    """

    run: Run | Runs
    assumptions: tuple[Assumption, ...]
    generator: Generator
    dtype: str
    weights: tuple[Any, ...]
    training: ClassVar[Training] = Training.OPACUS


def opacus_training(
    engine: PrivacyEngine,
    optimizer: DPOptimizer,
    *,
    draws: SecureDraws | None = None,
    sampling: Sampling | None = None,
    adjacency: str = "add-remove",
) -> OpacusTraining:
    """Describe a finished Opacus training.

    Parameters
    ----------
    engine, optimizer : PrivacyEngine, DPOptimizer
        What trained. The engine's accountant may be any of Opacus's or "dplateau", which alone sees what no bound covers.
    draws : SecureDraws, optional
        What ``draw_securely`` gave. Without it the generator is torch's, and a certificate certifies nothing (unless the engine has
        ``secure_mode=True``).
    sampling, adjacency
        As in ``from_opacus``.

    Returns
    -------
    OpacusTraining
        The run, and the assumptions, which should be read.

    Raises
    ------
    InputError
        ``from_opacus`` has no run for it, the clip norm was adaptive or changed, empty batches made no steps, or the accountant and
        ``draws`` counted other ones.
    """
    if is_adaptive(optimizer):
        raise InputError(ADAPTIVE)
    if isinstance(optimizer, DPOptimizer) and is_left_behind(optimizer):
        raise InputError(LEFT_BEHIND)
    if engine.dataset is None or not isinstance(optimizer, DPOptimizer) or optimizer.step_hook is None:
        raise InputError("no accountant counted the steps of this optimizer: expected engine and optimizer of one make_private.")
    run = from_opacus(engine.accountant, n=len(engine.dataset), sampling=sampling, adjacency=adjacency)
    clip = float(optimizer.max_grad_norm)
    run = clipped(run, clip)
    generator = _generator(engine, optimizer, draws, sampling)
    dtype = ", ".join(sorted({str(weights.dtype).removeprefix("torch.") for weights in optimizer.params}))
    weights = tuple(parameter.detach().cpu().clone() for parameter in optimizer.params)
    return OpacusTraining(run, _assumptions(run, clip, generator), generator, dtype, weights)


def clipped(run: Run | Runs, clip: float) -> Run | Runs:
    """The run, or each of several, with this clip norm."""
    return Runs(one.replace(clip_norm=clip) for one in run.runs) if isinstance(run, Runs) else run.replace(clip_norm=clip)


def _generator(engine: PrivacyEngine, optimizer: DPOptimizer, draws: SecureDraws | None, sampling: Sampling | None) -> Generator:
    """The source of randomness, after checking that all came from there."""
    if draws is None:
        secure = engine.secure_mode and optimizer.secure_mode and optimizer.generator is engine.secure_rng
        return TORCHCSPRNG if secure else TORCH
    if sampling is not None or draws.optimizer is not optimizer:
        raise InputError("draws belong to another training: pass what draw_securely gave for this optimizer, or leave draws out.")
    rates, steps = {rate for _, rate, _ in engine.accountant.history}, sum(steps for _, _, steps in engine.accountant.history)
    if draws.steps != steps or draws.batches < steps or rates != {draws.rate}:
        raise InputError(
            f"the accountant counted {steps} steps, but draws made the noise of {draws.steps} and {draws.batches} batches, or"
            " drew at another rate. Call draw_securely before the first step, use its loader for all, or leave draws out."
        )
    if draws.records != (records := len(engine.dataset)):  # type: ignore[arg-type]
        raise InputError(
            f"the engine's data set, the first that make_private was given, has {records:,} records, and batches were drawn from "
            f"{draws.records:,}: make a new PrivacyEngine for every data set."
        )
    counted: Counter[float] = Counter()
    for noise, _, count in engine.accountant.history:
        counted[float(noise)] += count
    if counted != draws.noise:
        raise InputError("the accountant counted other noise than draws made: pass the engine of the same make_private.")
    if draws.empty and draws.batches > steps:
        raise InputError(
            f"{draws.batches} batches were drawn, of which {draws.empty} were empty, and {steps} steps made: an empty batch has to "
            "make its step too, or the number of steps tells of the records."
        )
    if len(draws.clip_norms) > 1:
        raise InputError("max_grad_norm was changed in training: a certificate states one clip norm, and no schedule of it.")
    if len(draws.divisors) > 1:
        raise InputError(
            "expected_batch_size was changed in training: sizes of batches are private, and nothing accounts for them."
        )
    return draws.generator.source


def _assumptions(run: Run | Runs, clip: float, generator: Generator) -> tuple[Assumption, ...]:
    """What the guarantee rests on: only what was drawn here is enforced, for all else Opacus or the caller vouches."""
    schemes = dict.fromkeys(one.sampling.kind for one in runs_of(run))
    drawn = (*(Batches(scheme=scheme) for scheme in schemes), Noise(grid=False))
    return (
        PublicConstants(),
        *(one.enforced() if generator == SECURE_DRAWS else one.vouched(By.OPACUS) for one in drawn),
        *(one.vouched(By.OPACUS) for one in (Clipping(clip_norm=clip), Divisor())),
        SeparateExamples(),
        Steps(),
        Arithmetic(rounding=Rounding.IGNORED),
        Features(),
        *([Order()] if {"cyclic", "one-pass"} & set(schemes) else []),
    )
