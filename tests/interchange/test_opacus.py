# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportMissingImports=false
"""Real trainings with Opacus. Skipped where it is not installed; ``test_opacus_in_own_environment.py`` says how to run them."""

from __future__ import annotations

import contextlib
import io
import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dplateau as dp
from dplateau.spec import PrivacyWarning, Runs

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")

from opacus.accountants import create_accountant  # noqa: E402
from opacus.accountants.utils import get_noise_multiplier  # noqa: E402
from opacus.schedulers import ExponentialNoise, StepNoise  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402

from dplateau.interchange.opacus import GRAIN, PlateauAccountant, drawn_rate, from_opacus  # noqa: E402

N, BATCH, DELTA = 500, 25, 1e-5
MODELS = {
    "linear": lambda: torch.nn.Linear(5, 2),
    "mlp": lambda: torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)),
}


@pytest.fixture(autouse=True)
def _own_warnings_only() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", PrivacyWarning)
        yield


def loader(n: int = N, batch: int = BATCH, **options: Any) -> Any:
    torch.manual_seed(1)
    rows = torch.randn(n, 5)
    data = torch.utils.data.TensorDataset(rows, (rows[:, 0] > 0).long())
    return torch.utils.data.DataLoader(data, batch_size=batch, **({"shuffle": True} | options))


class Training:
    """A model, trained as Opacus's tutorials do."""

    def __init__(self, accountant: str = "dplateau", model: str = "linear", data: Any = None, **options: Any) -> None:
        self.engine = opacus.PrivacyEngine(accountant=accountant)
        module = MODELS[model]()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        make = self.engine.make_private_with_epsilon if "target_epsilon" in options else self.engine.make_private
        options = {"max_grad_norm": 1.0} | options
        self.module, self.optimizer, self.loader = make(module=module, optimizer=optimizer, data_loader=data or loader(), **options)

    def step(self, rows: Any, target: Any) -> None:
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.module(rows), target).backward()
        self.optimizer.step()

    def epochs(self, count: int, each: Any = None) -> Training:
        for _ in range(count):
            for rows, target in self.loader:
                self.step(rows, target)
            if each is not None:
                each()
        return self


@pytest.mark.parametrize("model", MODELS)
def test_exact_beside_opacus_own(model: str) -> None:
    found = Training(model=model, noise_multiplier=1.0).epochs(3)
    epsilon = found.engine.get_epsilon(DELTA)
    assert found.engine.accountant.history == [(1.0, 0.05, 60)]
    assert len(found.engine.accountant) == 60
    run = from_opacus(found.engine.accountant, n=N)
    assert run == dp.Run(n=N, sampling=dp.Poisson(drawn_rate(0.05) * N), steps=60, noise_multiplier=1.0)
    assert epsilon == pytest.approx(dp.account(run, DELTA).epsilon, rel=1e-12)
    assert dp.account(run, DELTA).best.name == "exact-composition"
    plain = run.replace(sampling=dp.Poisson(BATCH))
    assert dp.account(plain, DELTA).epsilon <= epsilon <= dp.account(plain, DELTA).epsilon * (1 + 1e-5)
    for peer, slack in (("rdp", 0.6), ("prv", 0.03)):
        accountant = create_accountant(peer)
        accountant.history = list(found.engine.accountant.history)
        assert epsilon < accountant.get_epsilon(DELTA) < epsilon + slack
    assert found.engine.accountant.get_delta(epsilon) == pytest.approx(DELTA, rel=1e-4)


def test_checkpoint_and_resume() -> None:
    first = Training(noise_multiplier=1.0).epochs(2)
    file = io.BytesIO()
    first.engine.save_checkpoint(path=file, module=first.module, optimizer=first.optimizer)
    file.seek(0)
    second = Training(noise_multiplier=1.0)
    second.engine.load_checkpoint(path=file, module=second.module, optimizer=second.optimizer)
    assert second.engine.get_epsilon(DELTA) == first.engine.get_epsilon(DELTA)
    second.epochs(1)
    assert len(first.engine.accountant) == 40
    assert second.engine.get_epsilon(DELTA) == Training(noise_multiplier=1.0).epochs(3).engine.get_epsilon(DELTA)


def test_a_state_is_copied_and_checked() -> None:
    accountant = PlateauAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    state = accountant.state_dict()
    other = PlateauAccountant()
    other.load_state_dict(state)
    other.step(noise_multiplier=1.0, sample_rate=0.1)
    assert (len(accountant), len(other), state["history"]) == (1, 2, [(1.0, 0.1, 1)])
    with pytest.raises(ValueError, match="rdp"):
        other.load_state_dict({"history": [], "mechanism": "rdp"})
    for history in ([(1.0, 0.1)], [(-1.0, 0.1, 1)], [(1.0, 1.1, 1)], [(1.0, 0.1, 0.5)], [(math.nan, 0.1, 1)], 3):
        with pytest.raises(dp.InputError):
            other.load_state_dict({"history": history, "mechanism": "dplateau"})
    assert len(other) == 2


def test_noise_schedulers() -> None:
    found = Training(noise_multiplier=2.0)
    scheduler = StepNoise(found.optimizer, step_size=1, gamma=0.8)
    found.epochs(3, each=scheduler.step)
    history = found.engine.accountant.history
    assert [(round(z, 9), steps) for z, _, steps in history] == [(2.0, 20), (1.6, 20), (1.28, 20)]
    run = from_opacus(found.engine.accountant, n=N)
    assert isinstance(run.noise_multiplier, tuple)
    assert found.engine.get_epsilon(DELTA) == pytest.approx(dp.account(run, DELTA).epsilon, abs=2e-7)

    smooth = Training(noise_multiplier=2.0)
    decay = ExponentialNoise(smooth.optimizer, gamma=0.99)
    for rows, target in (batch for _ in range(3) for batch in smooth.loader):
        smooth.step(rows, target)
        decay.step()
    assert len(smooth.engine.accountant.history) == 60
    every = from_opacus(smooth.engine.accountant, n=N)
    assert smooth.engine.get_epsilon(DELTA) == pytest.approx(dp.account(every, DELTA).epsilon, abs=2e-7)


def test_rates_that_change() -> None:
    accountant = PlateauAccountant()
    accountant.history = [(1.0, 0.25, 3), (2.0, 1.0, 2), (1.0, 0.25, 3)]
    run = from_opacus(accountant, n=100)
    assert (run.steps, run.sampling) == (8, dp.Poisson([25, 25, 25, 100, 100, 25, 25, 25]))
    assert accountant.get_epsilon(DELTA) == pytest.approx(dp.account(run, DELTA).epsilon, abs=2e-7)


def test_make_private_with_epsilon() -> None:
    found = Training(target_epsilon=2.0, target_delta=DELTA, epochs=3)
    found.epochs(3)
    assert 1.95 < found.engine.get_epsilon(DELTA) <= 2.0
    tight = {"target_epsilon": 2.0, "target_delta": DELTA, "sample_rate": 0.05, "steps": 60, "epsilon_tolerance": 1e-6}
    noise = get_noise_multiplier(accountant="dplateau", **tight)
    run = dp.Run(n=N, sampling=dp.Poisson(drawn_rate(0.05) * N), steps=60, noise_multiplier=1.0)
    assert noise == pytest.approx(dp.calibrate(run, epsilon=2.0, delta=DELTA).noise_multiplier, rel=1e-5)


def test_no_step_and_no_noise() -> None:
    fresh = PlateauAccountant()
    assert (fresh.get_epsilon(DELTA), fresh.get_delta(0.0), len(fresh)) == (0, 0, 0)
    found = Training(noise_multiplier=0.0).epochs(1)
    assert (found.engine.get_epsilon(DELTA), found.engine.accountant.get_delta(1.0)) == (math.inf, 1.0)
    for accountant, message in ((fresh, "no step was made"), (found.engine.accountant, "without noise")):
        with pytest.raises(dp.InputError, match=message):
            from_opacus(accountant, n=N)


def test_the_sampler_has_24_bits() -> None:
    """``drawn_rate`` is the probability of ``torch.rand() < rate``: all outcomes are k / 2^24, compared in single precision."""
    drawn = torch.rand(1_000_000, generator=torch.Generator().manual_seed(3)).double() * GRAIN
    assert bool((drawn == drawn.round()).all())
    assert int(drawn.max()) < GRAIN
    rng = np.random.default_rng(4)
    for rate in [1.0, 0.5, 1e-9, 1e-6, *rng.uniform(0, 1, 50), *(1 / rng.integers(2, 10**6, 50))]:
        k = int(rate * GRAIN)
        around = torch.arange(max(k - 3, 0), min(k + 4, GRAIN), dtype=torch.float64).div(GRAIN).float()
        below = max(k - 3, 0) + int((around < float(rate)).sum())
        assert below / GRAIN <= drawn_rate(float(rate)) <= max(below / GRAIN, rate + 1 / GRAIN)
        assert drawn_rate(float(rate)) >= rate


def refused(found: Training) -> str:
    with pytest.warns(PrivacyWarning) as caught:
        assert found.engine.get_epsilon(DELTA) == math.inf
    assert found.engine.accountant.get_delta(5.0) == 1.0
    return str(caught[0].message)


def test_shuffled_batches_are_noticed() -> None:
    found = Training(poisson_sampling=False, noise_multiplier=1.0)
    with pytest.warns(PrivacyWarning, match="no Poisson samples"):
        found.epochs(3)
    assert "poisson_sampling=False" in refused(found)
    with pytest.raises(dp.InputError, match="no Poisson samples"):
        from_opacus(found.engine.accountant, n=N)
    state = PlateauAccountant()
    state.load_state_dict(found.engine.accountant.state_dict())
    assert state.uncovered is not None
    run = from_opacus(found.engine.accountant, n=N, sampling=dp.Shuffled(BATCH))
    assert run == dp.Run(n=N, sampling=dp.Shuffled(BATCH), steps=60, noise_multiplier=1.0)
    peer = create_accountant("prv")
    peer.history = list(found.engine.accountant.history)
    assert dp.account(run, DELTA).epsilon > 2 * peer.get_epsilon(DELTA)


def test_accumulated_batches_are_noticed() -> None:
    found = Training(poisson_sampling=False, noise_multiplier=1.0)

    def epoch() -> None:
        for k, (rows, target) in enumerate(found.loader):
            torch.nn.functional.cross_entropy(found.module(rows), target).backward()
            if k % 2:
                found.optimizer.step()
                found.optimizer.zero_grad()

    with pytest.warns(PrivacyWarning, match="no Poisson samples"):
        epoch()
    assert "no Poisson samples" in refused(found)
    with pytest.raises(dp.InputError, match="accumulated batches"):
        from_opacus(found.engine.accountant, n=N, sampling=dp.Shuffled(BATCH))


def test_adaptive_clipping_is_refused() -> None:
    options = {"target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 9.0, "min_clipbound": 0.1}
    found = Training(clipping="adaptive", noise_multiplier=1.0, unclipped_num_std=5.0, **options)
    with pytest.warns(PrivacyWarning, match="adaptive clipping"):
        found.epochs(1)
    assert "adaptive clipping" in refused(found)
    for sampling in (None, dp.Shuffled(BATCH)):
        with pytest.raises(dp.InputError, match="adaptive clipping"):
            from_opacus(found.engine.accountant, n=N, sampling=sampling)


def test_a_default_of_half_precision_is_refused() -> None:
    """Then the sampler draws more often than the rate that was counted."""
    torch.set_default_dtype(torch.bfloat16)
    try:
        drawn = (torch.rand(10**5) < 0.0005).double().mean()
        found = Training(noise_multiplier=1.0)
        with pytest.warns(PrivacyWarning, match="half precision"):
            found.epochs(1)
        assert drawn > 0.0007
        assert "half precision" in refused(found)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("physical", [1, 7, 25])
def test_split_batches_are_poisson(physical: int) -> None:
    found = Training(noise_multiplier=1.0)
    with BatchMemoryManager(data_loader=found.loader, max_physical_batch_size=physical, optimizer=found.optimizer) as batches:
        for rows, target in batches:
            found.step(rows, target)
    assert found.engine.accountant.history == [(1.0, 0.05, 20)]
    assert math.isfinite(found.engine.get_epsilon(DELTA))


@pytest.mark.parametrize(
    "options", [{"clipping": "per_layer", "max_grad_norm": [0.7, 0.7]}, {"grad_sample_mode": "ew"}], ids=["per-layer", "ew"]
)
def test_other_modes_are_covered(options: dict[str, Any]) -> None:
    found = Training(noise_multiplier=1.0, **options).epochs(2)
    assert found.engine.get_epsilon(DELTA) == Training(noise_multiplier=1.0).epochs(2).engine.get_epsilon(DELTA)


def test_runs_of_other_loaders() -> None:
    cyclic = Training("prv", data=loader(shuffle=False), poisson_sampling=False, noise_multiplier=2.0).epochs(2)
    assert from_opacus(cyclic.engine.accountant, n=N, sampling=dp.Cyclic(BATCH)).steps == 40
    uneven = Training("rdp", data=loader(batch=30), poisson_sampling=False, noise_multiplier=2.0).epochs(2)
    assert from_opacus(uneven.engine.accountant, n=N, sampling=dp.Shuffled(30)).epochs == 2
    dropped = Training("rdp", data=loader(batch=30, drop_last=True), poisson_sampling=False, noise_multiplier=2.0).epochs(2)
    for sampling, message in ((dp.Shuffled(30), "drop_last"), (dp.FixedSize(30), "expected dp.Shuffled")):
        with pytest.raises(dp.InputError, match=message):
            from_opacus(dropped.engine.accountant, n=N, sampling=sampling)
    full = Training("rdp", data=loader(batch=N), noise_multiplier=9.0).epochs(3)
    assert from_opacus(full.engine.accountant, n=N, sampling=dp.FullBatch()).is_full_batch
    assert not isinstance(from_opacus(full.engine.accountant, n=N), Runs)


def test_the_page_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``tests/docs`` leaves its blocks alone, because they need Opacus."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "use-with-opacus.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", page, flags=re.M | re.S)
    namespace: dict[str, Any] = {"__name__": "page"}
    printed, shown = io.StringIO(), ""
    for kind, text in blocks:
        if kind == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile(text, "use-with-opacus.md", "exec"), namespace)
        else:
            shown += text
    assert printed.getvalue() == shown
    assert len(blocks) == 14
