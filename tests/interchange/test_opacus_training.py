# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportMissingImports=false
"""Certificates of real trainings with Opacus. Skipped where it is not installed, as ``test_opacus.py`` is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dplateau as dp
from dplateau.certificate import Certificate, check_weights, make_certificate, verify
from dplateau.spec import ContradictionError, Generator, PrivacyWarning, Runs

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")

from opacus.schedulers import ExponentialGradClip  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402

from dplateau.interchange.opacus import drawn_rate, from_opacus  # noqa: E402
from dplateau.interchange.opacus_training import TORCH, TORCHCSPRNG, draw_securely, opacus_training  # noqa: E402

N, BATCH, DELTA = 500, 25, 1e-5
SECRET = Generator("AES-256-CTR", "operating-system")


@pytest.fixture(autouse=True)
def _own_warnings_only() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", PrivacyWarning)
        yield


class Training:
    """A linear model on 5 features, with noise 1.5 and clipping norm 0.8."""

    def __init__(
        self, accountant: str = "dplateau", features: int = 5, n: int = N, batch: int = BATCH, engine: Any = None, **options: Any
    ) -> None:
        torch.manual_seed(1)
        self.rows = torch.randn(n, features)
        data = torch.utils.data.TensorDataset(self.rows, (self.rows[:, 0] > 0).long())
        module = torch.nn.Linear(features, 2)
        self.engine = engine or opacus.PrivacyEngine(accountant=accountant)
        made = self.engine.make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=batch, shuffle=True),
            **({"noise_multiplier": 1.5, "max_grad_norm": 0.8} | options),
        )
        self.module, self.optimizer, self.loader = made[0], made[1], made[-1]
        self.loss = made[2] if len(made) == 4 else torch.nn.functional.cross_entropy

    def epochs(self, count: int, loader: Any = None) -> Training:
        for _ in range(count):
            for rows, target in loader or self.loader:
                self.optimizer.zero_grad()
                self.loss(self.module(rows), target).backward()
                self.optimizer.step()
        return self

    def draws(self) -> Any:
        return draw_securely(self.optimizer, self.loader)

    def described(self, **options: Any) -> Any:
        return opacus_training(self.engine, self.optimizer, **options)


def certified(training: Any) -> Certificate:
    return make_certificate(dp.account(training.run, DELTA), training)


def test_a_certificate_with_secure_draws() -> None:
    found = Training()
    draws = found.draws()
    training = found.epochs(3).described(draws=draws)
    rate = drawn_rate(0.05)
    assert training.run == dp.Run(n=N, sampling=dp.Poisson(rate * N), steps=60, noise_multiplier=1.5, clip_norm=0.8)
    assert (draws.steps, draws.batches) == (60, 60)
    certificate = certified(training)
    assert certificate.certifies
    assert certificate.epsilon == pytest.approx(found.engine.get_epsilon(DELTA), rel=1e-7)
    assert certificate.generator == SECRET
    assert certificate.arithmetic == "float32"
    how = {one.name: one.how for one in certificate.assumptions}
    assert {name for name, one in how.items() if one == "enforced"} == {"sampling", "noise"}
    assert {name for name, one in how.items() if one == "declared"} >= {"clipping", "model", "divisor", "steps", "public constants"}
    by = {one.name: one.by for one in certificate.assumptions}
    assert (by["noise"], by["clipping"], by["steps"]) == ("dplateau", "opacus", "caller")
    check_weights(certificate, list(found.module.parameters()))
    found.epochs(1)
    with pytest.raises(ContradictionError, match="about other weights"):
        check_weights(certificate, list(found.module.parameters()))
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert verify(again).certifies


@pytest.mark.parametrize("accountant", ["dplateau", "rdp"])
def test_torchs_own_generator_certifies_nothing(accountant: str) -> None:
    training = Training(accountant).epochs(1).described()
    certificate = certified(training)
    assert not certificate.certifies
    assert certificate.generator == TORCH
    assert "not cryptographic" in certificate.statement
    assert "seed" not in certificate.statement
    assert "guessable noise" in str(certificate)
    assert {one.how for one in certificate.assumptions} == {"declared"}
    verdict = verify(Certificate.from_json(certificate.to_json()))
    assert verdict.agrees
    assert not verdict.certifies


def test_opacus_secure_mode_is_named() -> None:
    """torchcsprng is not installed, so the engine is told that it has its generator."""
    found = Training().epochs(1)
    found.engine.secure_mode = found.optimizer.secure_mode = True
    found.engine.secure_rng = torch.Generator()
    assert found.described().generator == TORCH  # the optimizer has another one
    found.optimizer.generator = found.engine.secure_rng
    training = found.described()
    assert training.generator == TORCHCSPRNG
    assert certified(training).certifies
    assert {one.how for one in training.assumptions} == {"declared"}


def test_the_noise_has_the_stated_scale() -> None:
    found = Training(features=20_000)
    found.draws()
    found.optimizer.zero_grad()
    (0 * torch.nn.functional.cross_entropy(found.module(found.rows[:20]), torch.zeros(20, dtype=torch.long))).backward()
    found.optimizer.step()
    noise = np.concatenate([weights.grad.numpy().ravel() for weights in found.optimizer.params]) * BATCH / (1.5 * 0.8)
    assert len(noise) == 40_002
    assert stats.kstest(noise, "norm").pvalue > 1e-6
    for factor in (0.9, 1.1):  # The test would see a wrong scale.
        assert stats.kstest(noise / factor, "norm").pvalue < 1e-6
    half = len(noise) // 2
    assert abs(np.corrcoef(noise[:half], noise[half : 2 * half])[0, 1]) < 6 / np.sqrt(half)


def test_sums_are_opacus_own() -> None:
    """With hardly any noise both ways of adding it give the same step."""
    secure, plain = Training(noise_multiplier=1e-9), Training(noise_multiplier=1e-9)
    secure.draws()
    batch = [(secure.rows[:30], torch.ones(30, dtype=torch.long))]
    for one in (secure, plain):
        one.epochs(3, batch)
    for ours, theirs in zip(secure.optimizer.params, plain.optimizer.params, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(ours, theirs)


def test_batches_are_poisson_samples() -> None:
    found = Training()
    draws = found.draws()
    batches = [batch for _ in range(40) for batch in found.loader.batch_sampler]
    assert draws.batches == len(batches) == 800
    sizes = np.array([len(batch) for batch in batches])
    assert abs(sizes.mean() - BATCH) < 6 * np.sqrt(BATCH * 0.95 / 800)
    assert 0.7 < sizes.var() / (BATCH * 0.95) < 1.3
    counts = np.bincount(np.concatenate(batches), minlength=N)
    assert stats.kstest((counts - 40) / np.sqrt(800 * 0.05 * 0.95), "norm").pvalue > 1e-6
    assert all(sorted(set(batch)) == batch for batch in batches)
    assert sum(len(rows) for rows, _ in found.loader) > 0  # the loader itself uses it
    assert draws.batches == 820


def test_split_batches() -> None:
    found = Training()
    draws = found.draws()
    with BatchMemoryManager(data_loader=found.loader, max_physical_batch_size=7, optimizer=found.optimizer) as loader:
        found.epochs(2, loader)
    assert (draws.steps, draws.batches) == (40, 40)
    assert certified(found.described(draws=draws)).certifies


@pytest.mark.parametrize("made", [True, False], ids=["after its step", "before its step"])
def test_a_split_batch_that_is_left_is_not_added_to_the_next_one(made: bool) -> None:
    found = Training()
    draws = found.draws()
    with BatchMemoryManager(data_loader=found.loader, max_physical_batch_size=2, optimizer=found.optimizer) as batches:
        for rows, target in batches:
            found.optimizer.zero_grad()
            found.loss(found.module(rows), target).backward()
            if made:
                found.optimizer.step()
            break
        with pytest.raises(dp.InputError, match="left before its last part"):
            next(iter(batches))
    assert (draws.steps, draws.batches) == (0, 1)


def test_empty_batches_make_steps() -> None:
    found = Training(n=60, batch=1)
    draws = found.draws()
    for rows, target in found.loader:
        if len(rows):
            found.optimizer.zero_grad()
            found.loss(found.module(rows), target).backward()
            found.optimizer.step()
    assert draws.steps < draws.batches == draws.steps + draws.empty
    with pytest.raises(dp.InputError, match="an empty batch has to make its step"):
        found.described(draws=draws)
    every = Training(n=60, batch=1)
    draws = every.draws()
    assert certified(every.epochs(1).described(draws=draws)).certifies
    assert draws.empty


def test_draws_that_are_not_all() -> None:
    late = Training().epochs(1)
    draws = late.draws()
    late.epochs(1)
    with pytest.raises(dp.InputError, match="counted 40 steps, but draws made the noise of 20 and 20 batches"):
        late.described(draws=draws)
    assert not certified(late.described()).certifies

    other = Training()
    draws, loader = other.draws(), Training().loader
    other.epochs(1, loader)
    with pytest.raises(dp.InputError, match="counted 20 steps, but draws made the noise of 20 and 0 batches"):
        other.described(draws=draws)

    with pytest.raises(dp.InputError, match="another training"):
        other.described(draws=Training().draws())

    rate = Training()
    draws = rate.draws()
    rate.epochs(1).engine.accountant.history[0] = (1.5, 0.01, 20)
    with pytest.raises(dp.InputError, match="drew at another rate"):
        rate.described(draws=draws)


def test_an_engine_that_saw_another_data_set_first_is_refused() -> None:
    """It keeps the first data set, whose number of records would be in the certificate."""
    first = Training(n=50)
    second = Training(engine=first.engine)
    draws = second.draws()
    with pytest.raises(dp.InputError, match="has 50 records, and batches were drawn from 500"):
        second.epochs(1).described(draws=draws)


def test_the_engine_of_another_training_is_refused() -> None:
    cheap, found = Training(noise_multiplier=10.0).epochs(1), Training(noise_multiplier=0.3)
    draws = found.draws()
    found.epochs(1)
    with pytest.raises(dp.InputError, match="counted other noise"):
        opacus_training(cheap.engine, found.optimizer, draws=draws)
    assert found.described(draws=draws).run.noise_multiplier == 0.3


def test_a_rate_that_opacus_rounds() -> None:
    """Of 93 batches Opacus makes 92, draws each at the rate 1/93, and counts it at 1/92."""
    found = Training(batch=1, n=93)
    draws = found.draws()
    training = found.epochs(1).described(draws=draws)
    assert training.run.steps == len(found.loader) == 92
    assert training.run.sampling.batch_size == pytest.approx(93 / 92, rel=1e-4)
    assert certified(training).certifies


def test_what_is_refused() -> None:
    with pytest.raises(dp.InputError, match="does not draw Poisson samples"):
        Training(poisson_sampling=False).draws()
    with pytest.raises(dp.InputError, match="does not draw Poisson samples"):
        draw_securely(Training().optimizer, None)
    options = {"target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 9.0, "min_clipbound": 0.1}
    adaptive = Training("rdp", clipping="adaptive", unclipped_num_std=1.0, **options).epochs(1)
    with pytest.raises(dp.InputError, match="AdaClipDPOptimizer"):
        adaptive.draws()
    with pytest.raises(dp.InputError, match="adaptive clipping"):
        adaptive.described()
    ghost = Training(grad_sample_mode="ghost", criterion=torch.nn.CrossEntropyLoss())
    with pytest.raises(dp.InputError, match="FastGradientClipping"):
        ghost.draws()
    with pytest.raises(dp.InputError, match="no accountant counted"):
        opacus_training(opacus.PrivacyEngine(), Training().optimizer)
    with pytest.raises(dp.InputError, match="no accountant counted"):
        opacus_training(Training().engine, torch.optim.SGD([torch.zeros(1)]))
    with pytest.raises(dp.InputError, match="no step was made"):
        Training().described()


def test_other_sampling_and_per_layer_clipping() -> None:
    shuffled = Training("prv", noise_multiplier=8.0, poisson_sampling=False).epochs(2)
    training = shuffled.described(sampling=dp.Shuffled(BATCH), adjacency="replace")
    assert training.run.sampling == dp.Shuffled(BATCH)
    assert "shuffled batches" in {one.name: one.statement for one in training.assumptions}["sampling"]
    assert verify(certified(training)).agrees

    layers = Training(clipping="per_layer", max_grad_norm=[0.3, 0.4])
    draws = layers.draws()
    assert layers.epochs(1).described(draws=draws).run.clip_norm == pytest.approx(0.5)


@pytest.mark.parametrize("accountant", ["dplateau", "rdp"])
def test_noise_that_shrinks_without_the_clipping(accountant: str) -> None:
    """A scheduler of clip norms changes the scale of the noise; per-layer and ghost clipping do not follow."""
    layers = Training(accountant, clipping="per_layer", max_grad_norm=[0.3, 0.4])
    draws, scheduler = layers.draws(), ExponentialGradClip(layers.optimizer, gamma=0.1)
    layers.epochs(1)
    scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers.epochs(1)
        ghost = Training(grad_sample_mode="ghost", criterion=torch.nn.CrossEntropyLoss())
        for norm in (0.8, 0.4):
            ghost.optimizer.max_grad_norm = norm
            ghost.epochs(1)
        if accountant == "dplateau":
            assert layers.engine.get_epsilon(DELTA) == ghost.engine.get_epsilon(DELTA) == np.inf
    with pytest.raises(dp.InputError, match="max_grad_norm"):
        layers.described(draws=draws)


def test_clip_norms_that_change() -> None:
    flat = Training().epochs(1)
    flat.optimizer.max_grad_norm = 0.4
    assert np.isfinite(flat.epochs(1).engine.get_epsilon(DELTA))  # It clips to what scales the noise.
    flat = Training()
    draws = flat.draws()
    flat.epochs(1).optimizer.max_grad_norm = 0.4
    flat.epochs(1)
    with pytest.raises(dp.InputError, match="states one clip norm"):
        flat.described(draws=draws)


def test_a_divisor_that_follows_the_batches_is_refused() -> None:
    found = Training()
    draws = found.draws()
    for rows, target in found.loader:
        found.optimizer.expected_batch_size = len(rows)
        found.optimizer.zero_grad()
        found.loss(found.module(rows), target).backward()
        found.optimizer.step()
    with pytest.raises(dp.InputError, match="expected_batch_size was changed"):
        found.described(draws=draws)


def test_several_runs() -> None:
    """Long histories with changing noise become several runs."""
    found = Training().epochs(1)
    engine = SimpleNamespace(
        accountant=[(50.0, 0.05, 600_000), (60.0, 0.05, 600_000)], dataset=found.engine.dataset, secure_mode=False
    )
    engine.accountant = SimpleNamespace(history=engine.accountant)
    training = opacus_training(engine, found.optimizer)
    assert isinstance(training.run, Runs)
    assert {run.clip_norm for run in training.run.runs} == {0.8}
    plain = from_opacus(engine.accountant, n=N)
    assert plain.steps == training.run.steps == 1_200_000
    assert verify(Certificate.from_json(certified(training).to_json())).agrees
