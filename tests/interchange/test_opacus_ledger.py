# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportMissingImports=false
"""Real trainings with Opacus that are charged to a real ledger. Skipped where it is not installed, as ``test_opacus.py`` is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dplateau as dp
from dplateau.spec import PrivacyWarning

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")
pytest.importorskip("sqlalchemy")

from opacus.utils.adaptive_clipping import PrivacyEngineAdaptiveClipping  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402

from dplateau.interchange.opacus_ledger import reserved_steps  # noqa: E402
from dplateau.interchange.opacus_noise import PlannedNoise  # noqa: E402
from dplateau.interchange.opacus_training import draw_securely, opacus_training  # noqa: E402

N, BATCH, DELTA = 500, 25, 1e-5


@pytest.fixture(autouse=True)
def _own_warnings_only() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", PrivacyWarning)
        yield


@pytest.fixture
def account(tmp_path: Path) -> Any:
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    ledger.create("people", n=N, epsilon=20.0, delta=1e-5)
    return ledger.account("people")


class Training:
    def __init__(self, accountant: str = "dplateau", **options: Any) -> None:
        torch.manual_seed(1)
        rows = torch.randn(N, 5)
        data = torch.utils.data.TensorDataset(rows, (rows[:, 0] > 0).long())
        module = torch.nn.Linear(5, 2)
        self.engine = opacus.PrivacyEngine(accountant=accountant)
        made = self.engine.make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True),
            **({"noise_multiplier": 2.0, "max_grad_norm": 0.8} | options),
        )
        self.module, self.optimizer, self.loader = made[0], made[1], made[-1]
        self.loss = made[2] if len(made) == 4 else torch.nn.functional.cross_entropy

    def reserved(self, account: Any, steps: int = 20, **options: Any) -> Any:
        given = self.engine, self.optimizer, self.loader
        return reserved_steps(*given, **({"steps": steps, "ledger": account, "delta": DELTA} | options))

    def epochs(self, count: int, loader: Any = None, after: Any = None, most: int = 10**6) -> int:
        made = 0
        for _ in range(count):
            for rows, target in loader or self.loader:
                if made == most:
                    return made
                self.optimizer.zero_grad()
                self.loss(self.module(rows), target).backward()
                self.optimizer.step()
                made += 1
                if after is not None:
                    after()
        return made

    def weights(self) -> Any:
        return [one.detach().clone() for one in self.module.parameters()]


def entries(account: Any) -> Any:
    return dp.Ledger(account.url).entries("people")[1:]


def test_a_training_is_reserved_and_committed_with_its_certificate(account: Any) -> None:
    training = Training()
    draws = draw_securely(training.optimizer, training.loader)
    with training.reserved(account, 40, draws=draws) as reserved:
        assert (account.state().reserved, draws.batches, reserved.left) == (1, 0, 40)
        training.epochs(2)
    first, second = entries(account)
    assert dp.Run.from_dict(first.data["run"]) == reserved.run == reserved.certificate.run
    assert (reserved.run.steps, reserved.run.clip_norm, reserved.run.noise_multiplier) == (40, 0.8, 2.0)
    assert second.data["certifies"]
    assert second.data["weights_sha256"] == reserved.certificate.weights_sha256
    assert dp.Ledger(account.url).verify(costs=True) == []


@pytest.mark.parametrize("accountant", ["dplateau", "rdp", "prv"])
def test_no_step_is_made_beyond_what_was_reserved(account: Any, accountant: str) -> None:
    training = Training(accountant)
    drawn: list[int] = []
    add_noise = training.optimizer.add_noise
    training.optimizer.add_noise = lambda: (drawn.append(1), add_noise())[1]
    seen: list[Any] = []
    with pytest.raises(dp.InputError, match="20 steps were reserved and all of them were made"), training.reserved(account):
        training.epochs(2, after=lambda: seen.append(training.weights()))
    assert len(drawn) == len(seen) == 20
    assert all(torch.equal(one, two) for one, two in zip(seen[-1], training.weights(), strict=True))
    assert [one.kind for one in entries(account)] == ["reserved"]  # What raised is not committed, and stays spent.


def test_no_step_is_made_after_the_block(account: Any) -> None:
    training = Training()
    with training.reserved(account):
        training.epochs(1)
    with pytest.raises(dp.InputError, match="all of them were made"):
        training.epochs(1)
    with pytest.raises(dp.InputError, match="the accountant counted 20 steps before"), training.reserved(account):
        pass
    assert account.state().reserved == 1


def test_what_the_budget_does_not_cover_draws_nothing(account: Any) -> None:
    training = Training(noise_multiplier=0.3)
    with pytest.raises(dp.BudgetError, match="nothing was reserved"), training.reserved(account, 2000):
        training.epochs(1)
    assert not training.engine.accountant.history
    assert entries(account) == []


def test_fewer_steps_are_committed_without_a_certificate(account: Any) -> None:
    training = Training()
    with training.reserved(account) as reserved:
        assert training.epochs(1, most=13) == 13
    assert (reserved.left, reserved.certificate) == (7, None)
    first, second = entries(account)
    assert (first.kind, second.kind, second.data) == ("reserved", "committed", {})
    assert opacus_training(training.engine, training.optimizer).run.steps == 13


def test_noise_that_was_not_reserved_is_refused(account: Any) -> None:
    training = Training()

    def falls() -> None:
        if len(training.engine.accountant) == 3:
            training.optimizer.noise_multiplier = 1.0

    with pytest.raises(dp.InputError, match="step 4 has noise_multiplier 1, and 2 was reserved"), training.reserved(account):
        training.epochs(1, after=falls)
    assert len(training.engine.accountant) == 3


def test_more_noise_than_was_reserved_has_a_certificate_of_its_own(account: Any) -> None:
    training = Training()
    with training.reserved(account) as reserved:
        training.optimizer.noise_multiplier = 3.0
        training.epochs(1)
    assert reserved.certificate.run.noise_multiplier == 3.0
    assert entries(account)[-1].data == {}


def test_planned_noise(account: Any) -> None:
    training = Training()
    plan = [2.0 + k / 10 for k in range(20)]
    scheduler = PlannedNoise(training.optimizer, noise=plan)
    with training.reserved(account, noise=plan) as reserved:
        training.epochs(1, after=scheduler.step)
    assert reserved.certificate.run == reserved.run
    assert entries(account)[-1].data["certificate_sha256"]
    with pytest.raises(dp.InputError, match="noise has 20 entries, and steps is 21"), Training().reserved(account, 21, noise=plan):
        pass


def test_batches_that_opacus_splits_are_one_step(account: Any) -> None:
    training = Training()
    with training.reserved(account) as reserved:
        manager = BatchMemoryManager(data_loader=training.loader, max_physical_batch_size=8, optimizer=training.optimizer)
        with manager as parts:
            training.epochs(1, parts)
    assert reserved.made == 20
    assert reserved.certificate is not None


@pytest.mark.parametrize(
    "options",
    [
        {"clipping": "per_layer", "max_grad_norm": [0.5, 0.5]},
        {"grad_sample_mode": "ghost", "criterion": torch.nn.CrossEntropyLoss()},
    ],
    ids=["per layer", "ghost"],
)
def test_other_clippings(account: Any, options: dict[str, Any]) -> None:
    training = Training(**options)
    with training.reserved(account) as reserved:
        training.epochs(1)
    assert reserved.certificate.run == reserved.run


def test_ghost_clipping_that_adapts_is_refused(account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opacus, "PrivacyEngine", PrivacyEngineAdaptiveClipping)
    loss = torch.nn.CrossEntropyLoss(reduction="mean")
    ghost = {"grad_sample_mode": "ghost", "criterion": loss, "poisson_sampling": False, "noise_multiplier": 1.0}
    training = Training(**ghost)
    before = training.weights()
    with pytest.raises(dp.InputError, match="adaptive clipping"), training.reserved(account):
        training.epochs(1)
    assert all(torch.equal(a, b) for a, b in zip(before, training.weights(), strict=True))
    free = Training(**ghost)
    with pytest.warns(PrivacyWarning, match="adaptive clipping"):
        free.epochs(1)
    with pytest.warns(PrivacyWarning, match="adaptive clipping"):
        assert free.engine.get_epsilon(DELTA) == math.inf
    for accountant in ("dplateau", "rdp"):
        other = Training(accountant, **ghost)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other.epochs(1)
        with pytest.raises(dp.InputError, match="adaptive clipping"):
            opacus_training(other.engine, other.optimizer, sampling=dp.Shuffled(BATCH))


def test_steps_of_another_optimizer_of_the_engine_are_told(account: Any) -> None:
    training, options = Training(), {"noise_multiplier": 2.0, "max_grad_norm": 0.8}

    def made_anew() -> None:
        given = {"module": training.module, "optimizer": training.optimizer, "data_loader": training.loader}
        _, training.optimizer, training.loader = training.engine.make_private(**given, **options)
        training.epochs(1)

    with pytest.raises(dp.InputError, match="counted 20 steps, of which 0 were reserved"), training.reserved(account):
        made_anew()


def test_draws_that_come_after_the_reservation_are_refused(account: Any) -> None:
    """They would take the guard off."""
    training = Training()
    with training.reserved(account, steps=3) as reserved:
        with pytest.raises(dp.InputError, match="call draw_securely first"):
            draw_securely(training.optimizer, training.loader)
        assert training.epochs(1, most=3) == 3
    assert (reserved.made, reserved.left) == (3, 0)


def test_a_clip_norm_that_was_not_reserved_is_refused(account: Any) -> None:
    training = Training(grad_sample_mode="ghost", criterion=torch.nn.CrossEntropyLoss())
    training.optimizer.max_grad_norm = 0.4
    with training.reserved(account) as reserved:
        training.optimizer.max_grad_norm = 0.1
        with pytest.raises(dp.InputError, match=r"step 1 has max_grad_norm 0.1, and 0.4 was reserved"):
            training.epochs(1)
    assert reserved.made == 0


def test_a_shuffled_loader(account: Any) -> None:
    training = Training("rdp", poisson_sampling=False, noise_multiplier=8.0)
    with training.reserved(account, sampling=dp.Shuffled(BATCH)) as reserved:
        training.epochs(1)
    assert reserved.certificate.run == reserved.run
    assert reserved.run.sampling == dp.Shuffled(BATCH)


def test_bad_input(account: Any) -> None:
    for options, said in (
        ({"steps": 0}, "steps is 0"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"delta": 0.0}, "delta"),
        ({"noise": [0.0] * 20}, "noise"),
        ({"adjacency": "edit"}, "adjacency"),
        ({"sampling": dp.Shuffled(3)}, "sampling rate"),
    ):
        with pytest.raises(dp.InputError, match=said) as error, Training().reserved(account, **options):
            pass
        assert "\n" not in str(error.value)
    adaptive = Training(
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=3.0,
    )
    with pytest.raises(dp.InputError, match="AdaClipDPOptimizer cannot be counted"), adaptive.reserved(account):
        pass
    training = Training()
    other = torch.utils.data.DataLoader(training.engine.dataset, batch_size=5)
    with (
        pytest.raises(dp.InputError, match="another number of batches than the one that make_private gave"),
        reserved_steps(training.engine, training.optimizer, other, steps=100, ledger=account, delta=DELTA),
    ):
        training.epochs(1)
    assert len(training.engine.accountant) == 0
    assert account.state().reserved == 0


def test_steps_that_are_counted_at_another_rate_are_refused(account: Any) -> None:
    training = Training()
    training.optimizer.attach_step_hook(training.engine.accountant.get_optimizer_hook_fn(sample_rate=0.051))
    with pytest.raises(dp.InputError, match="another number of batches"), training.reserved(account):
        training.epochs(1)
    assert len(training.engine.accountant) == 1


def test_one_step_at_another_rate_is_not_committed(account: Any) -> None:
    """Batches of 1 and of 2 of 9 records: both have an expected size of one whole record, so only the step itself tells."""
    rows = torch.randn(9, 5)
    data, module = torch.utils.data.TensorDataset(rows, (rows[:, 0] > 0).long()), torch.nn.Linear(5, 2)
    engine = opacus.PrivacyEngine(accountant="dplateau")
    module, optimizer, _ = engine.make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=2),
        noise_multiplier=2.0,
        max_grad_norm=0.8,
    )
    other = torch.utils.data.DataLoader(data, batch_size=1)
    torch.nn.functional.cross_entropy(module(rows), data.tensors[1]).backward()
    with (
        pytest.raises(dp.InputError, match="another number of batches than the one that make_private gave"),
        reserved_steps(engine, optimizer, other, steps=1, ledger=account, delta=DELTA),
    ):
        optimizer.step()
    assert len(engine.accountant) == 1
    assert [one.kind for one in entries(account)] == ["reserved"]
