# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportMissingImports=false
"""Opacus trainings with a planned noise schedule. Skipped where Opacus is not installed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dplateau as dp
from dplateau.algorithms.noise_allocation import adapted_noise
from dplateau.algorithms.step_schedules import polynomial_decay
from dplateau.spec import InputError, PrivacyWarning

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")

from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402

from dplateau.interchange.opacus import drawn_rate, from_opacus  # noqa: E402
from dplateau.interchange.opacus_noise import PlannedNoise  # noqa: E402

N, BATCH, STEPS, DELTA = 400, 40, 30, 1e-5


@pytest.fixture(autouse=True)
def _own_warnings_only() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", PrivacyWarning)
        yield


class Training:
    """A linear model, an optimizer of Opacus with our accountant, and its batches."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        rows = torch.randn(N, 5)
        data = torch.utils.data.TensorDataset(rows, (rows[:, 0] > 0).long())
        self.engine, model = opacus.PrivacyEngine(accountant="dplateau"), torch.nn.Linear(5, 2)
        self.module, self.optimizer, self.loader = self.engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True),
            max_grad_norm=1.0,
            noise_multiplier=77.0,
        )

    def step(self, rows: Any, target: Any) -> None:
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.module(rows), target).backward()
        self.optimizer.step()

    def steps(self, count: int, scheduler: Any) -> Training:
        done = 0
        while done < count:
            for rows, target in self.loader:
                if done < count:
                    self.step(rows, target)
                    scheduler.step()
                    done += 1
        return self


def plan() -> dp.Run:
    run = dp.Run(n=N, sampling=dp.Poisson(BATCH), steps=STEPS, noise_multiplier=adapted_noise(polynomial_decay(STEPS, 2.0, 1.0)))
    return dp.calibrate(run, epsilon=2.0, delta=DELTA)


def test_what_is_certified_is_the_plan() -> None:
    run, training = plan(), Training()
    scheduler = PlannedNoise(training.optimizer, noise=run)
    training.steps(STEPS, scheduler)
    assert [noise for noise, _, _ in training.engine.accountant.history] == list(run.noise_multiplier)
    drawn = run.replace(sampling=dp.Poisson(drawn_rate(BATCH / N) * N))
    certified = training.engine.get_epsilon(DELTA)
    assert certified == pytest.approx(dp.account(drawn, DELTA).epsilon, abs=2e-6)
    assert certified == pytest.approx(2.0, abs=1e-3)
    assert from_opacus(training.engine.accountant, n=N).noise_multiplier == run.noise_multiplier


def test_the_noise_that_is_added_follows_the_plan() -> None:
    noise = [0.5, 50.0, 2.0]
    training = Training()
    scheduler = PlannedNoise(training.optimizer, noise=noise)
    seen = []
    for _ in noise:
        added = []
        for _ in range(60):
            training.optimizer.zero_grad()
            training.module(torch.randn(BATCH, 5)).sum().backward()
            training.optimizer.clip_and_accumulate()
            training.optimizer.add_noise()
            added += [(p.grad - p.summed_grad.view_as(p.grad)).flatten() for p in training.optimizer.params]
        seen.append(float(torch.cat(added).std()))
        training.optimizer.zero_grad()
        scheduler.step()
    assert seen == pytest.approx(noise, rel=0.15)


def test_a_step_beyond_the_plan_changes_nothing() -> None:
    training = Training()
    scheduler = PlannedNoise(training.optimizer, noise=[1.0, 2.0])
    assert scheduler.left == 2
    training.steps(2, scheduler)
    assert scheduler.left == 0
    weights, spent = [p.clone() for p in training.module.parameters()], training.engine.get_epsilon(DELTA)
    rows, target = next(iter(training.loader))
    for _ in range(2):
        with pytest.raises(InputError, match="the plan has 2 steps"):
            training.step(rows, target)
    assert all(torch.equal(p, q) for p, q in zip(training.module.parameters(), weights, strict=True))
    assert training.engine.get_epsilon(DELTA) == spent


def test_every_entry_is_used_once() -> None:
    training = Training()
    scheduler = PlannedNoise(training.optimizer, noise=[1.0, 2.0])
    rows, target = next(iter(training.loader))
    training.step(rows, target)
    assert scheduler.left == 1
    with pytest.raises(InputError, match="second step was made with entry 1"):
        training.step(rows, target)
    scheduler.step()
    training.step(rows, target)
    with pytest.raises(InputError, match="the plan has 2 steps"):
        training.step(rows, target)


def test_split_batches_are_one_step() -> None:
    training, run = Training(), plan()
    scheduler = PlannedNoise(training.optimizer, noise=run)
    with BatchMemoryManager(data_loader=training.loader, max_physical_batch_size=8, optimizer=training.optimizer) as parts:
        for rows, target in parts:
            training.step(rows, target)
            if not training.optimizer._is_last_step_skipped:
                scheduler.step()
    assert scheduler.left == STEPS - len(training.loader)
    assert [noise for noise, _, _ in training.engine.accountant.history] == list(run.noise_multiplier[: len(training.loader)])


def test_a_state_goes_on_where_it_stopped() -> None:
    run = plan()
    first = Training()
    scheduler = PlannedNoise(first.optimizer, noise=run)
    first.steps(7, scheduler)
    second = Training()
    resumed = PlannedNoise(second.optimizer, noise=run)
    resumed.load_state_dict(scheduler.state_dict())
    assert second.optimizer.noise_multiplier == run.noise_multiplier[7]
    assert resumed.left == STEPS - 7
    second.steps(STEPS - 7, resumed)
    noises = [noise for one in (first, second) for noise, _, _ in one.engine.accountant.history]
    assert noises == list(run.noise_multiplier)
    with pytest.raises(InputError, match="another noise schedule"):
        PlannedNoise(Training().optimizer, noise=[1.0]).load_state_dict(scheduler.state_dict())


def test_constant_noise_and_wrong_noise() -> None:
    training = Training()
    PlannedNoise(training.optimizer, noise=dp.Run(n=N, sampling=dp.Poisson(BATCH), steps=3, noise_multiplier=4.0))
    assert training.optimizer.noise_multiplier == 4.0
    for wrong in ([], [1.0, 0.0], [np.nan]):
        with pytest.raises(InputError, match="noise"):
            PlannedNoise(training.optimizer, noise=wrong)
    with pytest.raises(ValueError, match="noise_multiplier"):
        PlannedNoise(torch.optim.SGD(training.module.parameters(), lr=0.1), noise=[1.0])
