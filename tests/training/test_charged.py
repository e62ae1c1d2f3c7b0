"""A training is charged before it draws a number, and what was charged stays spent."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone

import dplateau as dp
from dplateau.data import array_stream
from dplateau.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dplateau.losses import Logistic
from dplateau.networks import Checkpoint, Validation, train_network
from dplateau.training import SecureGenerator, train, train_one_pass, train_stream
from dplateau.training.charged import OnPart
from dplateau.training.phased_erm import train_phased_erm
from dplateau.training.phased_sgd import train_phased_sgd

N, D = 60, 3
ROWS = np.random.default_rng(0).normal(size=(N, D)) / 4
TARGET = ROWS[:, 0] > 0
RUN = dp.Run(n=N, sampling=dp.Poisson(6), steps=4, noise_multiplier=2.0, clip_norm=0.5, step_size=0.5)


class RefusedError(Exception):
    """There is nothing left."""


class Account:
    """An account that notes what it is told, and how much the generator had drawn by then."""

    def __init__(self, *, empty: bool = False, generator: SecureGenerator | None = None) -> None:
        self.empty, self.generator = empty, generator
        self.reserved: list[Any] = []
        self.committed: list[Any] = []
        self.drawn: list[int] = []

    def reserve(self, run: Any) -> Account:
        if self.empty:
            raise RefusedError
        self.reserved.append(run)
        if self.generator is not None:
            self.drawn.append(self.generator.drawn)
        return self

    def commit(self, certificate: Any = None) -> None:
        self.committed.append(certificate)


def linear(**given: Any) -> Any:
    return train(RUN, Logistic(), ROWS, TARGET, **given)


def passed(**given: Any) -> Any:
    return train(RUN.replace(sampling=dp.OnePass(15)), Logistic(), ROWS, TARGET, **given)


def blocks(**given: Any) -> Any:
    return train_one_pass(RUN.replace(sampling=dp.OnePass(15)), Logistic(), [(ROWS, TARGET.astype(float))], **given)


def streamed(**given: Any) -> Any:
    run = RUN.replace(sampling=dp.RandomAllocation(15))
    return train_stream(run, Logistic(), lambda: [(ROWS, TARGET.astype(float))], **given)


def network(**given: Any) -> Any:
    def loss(params: Any, example: Any) -> Any:
        return (jnp.dot(params, example[0]) - example[1]) ** 2

    examples = ROWS.astype(np.float32), TARGET.astype(np.float32)
    return train_network(RUN, loss, np.zeros(D, np.float32), examples, **given)


ROADS = [linear, passed, blocks, streamed, network]


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_every_road_is_charged_before_the_first_number_is_drawn(road: Callable[..., Any]) -> None:
    generator = SecureGenerator(insecure_seed=1)
    account = Account(generator=generator)
    result = road(ledger=account, generator=generator)
    assert account.reserved == [result.run]
    assert account.drawn == [0] != [generator.drawn]
    assert account.committed == [None]


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_an_empty_budget_draws_nothing(road: Callable[..., Any]) -> None:
    generator = SecureGenerator(insecure_seed=1)
    with pytest.raises(RefusedError):
        road(ledger=Account(empty=True), generator=generator)
    assert generator.drawn == 0


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_what_is_no_account_is_said(road: Callable[..., Any]) -> None:
    with pytest.raises(dp.InputError, match=r"ledger is of type str: expected an account, as dplateau.Ledger"):
        road(ledger="sqlite:///ledger.db")


@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_what_ends_early_stays_spent_and_is_not_committed(road: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    account = Account()
    monkeypatch.setattr(SecureGenerator, "normal", stopped)
    monkeypatch.setattr(SecureGenerator, "bernoulli_positions", stopped)
    with pytest.raises((KeyboardInterrupt, dp.InputError, RuntimeError)):
        road(ledger=account)
    assert (len(account.reserved), account.committed) == (1, [])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"progress": True}, "progress cannot be called"),
        ({"progress": lambda done: done}, "progress cannot be called"),
        ({"generator": np.random.default_rng(0)}, "expected a SecureGenerator"),
    ],
)
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_a_wrong_argument_costs_nothing(road: Callable[..., Any], wrong: dict[str, Any], says: str) -> None:
    account = Account()
    with pytest.raises(dp.InputError, match=says):
        road(ledger=account, **wrong)
    assert account.reserved == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((RUN, Logistic(), {"l2": "much"}), "l2 is of type str: expected numbers"),
        ((RUN, Logistic(), {"start": "here"}), "start is of type str: expected numbers"),
        ((RUN, "logistic", {}), "loss is str: expected one of dplateau.losses"),
        (("all", Logistic(), {}), "run is str: expected a dplateau.Run"),
    ],
)
def test_a_wrong_argument_is_said_in_one_line(arguments: Any, says: str) -> None:
    run, loss, options = arguments
    with pytest.raises(dp.InputError, match=says):
        train(run, loss, ROWS, TARGET, **options)
    for phases in (train_phased_sgd, train_phased_erm):
        with pytest.raises(dp.InputError):
            phases(run, loss, ROWS, TARGET)


def test_what_is_wrong_with_progress_and_scores_costs_nothing(tmp_path: Path) -> None:
    def score(_: Any) -> Any:
        raise ZeroDivisionError

    for given in (
        {"progress": True},
        {"progress": lambda done: done},
        {"validation": Validation(score, 2, "made up")},
        {"validation": Validation(lambda params: params, 2, "made up")},
    ):
        account = Account()
        with pytest.raises((dp.InputError, ZeroDivisionError)):
            network(ledger=account, checkpoint=Checkpoint(tmp_path / "network"), **given)
        assert not account.reserved
        assert not (tmp_path / "network").exists()


@pytest.mark.parametrize("bad", [np.full((N, D), np.nan), ROWS[:-1]], ids=["nan", "short"])
def test_what_is_wrong_from_the_start_costs_nothing(bad: Any) -> None:
    account = Account()
    with pytest.raises(dp.InputError):
        train(RUN, Logistic(), bad, TARGET[: len(bad)], ledger=account)
    assert account.reserved == []


ESTIMATORS: list[tuple[Callable[..., Any], Any]] = [
    (lambda **given: PrivateLogisticRegression(epsilon=1.0, delta=1e-5, classes=[False, True], max_iter=5, **given), TARGET),
    (lambda **given: PrivateLinearSVC(epsilon=1.0, delta=1e-5, classes=[False, True], max_iter=5, **given), TARGET),
    (lambda **given: PrivateLinearRegression(epsilon=1.0, delta=1e-5, target_range=(-1, 1), max_iter=5, **given), ROWS[:, 0]),
]


@pytest.mark.parametrize(("made", "target"), ESTIMATORS, ids=["logistic", "svc", "linear"])
def test_a_fit_is_charged_and_its_bound_certificate_committed(made: Callable[..., Any], target: Any) -> None:
    account = Account()
    model = made(ledger=account).fit(ROWS, target)
    assert account.reserved == [model.run_]
    assert account.committed == [model.certificate_]
    assert model.certificate_.weights_sha256 is not None
    streamed = made(ledger=account).fit_stream(array_stream(ROWS, target))
    assert account.reserved == [model.run_, streamed.run_]
    assert account.committed[1:] == [streamed.certificate_]
    assert "_reserved" not in vars(streamed)
    with pytest.raises(RefusedError):
        made(ledger=Account(empty=True)).fit(ROWS, target)


def test_a_model_is_cloned_and_pickled_with_its_account() -> None:
    model = ESTIMATORS[0][0](ledger=Account())
    assert isinstance(clone(model).get_params()["ledger"], Account)
    fitted = pickle.loads(pickle.dumps(deepcopy(model).fit(ROWS, TARGET)))
    assert len(fitted.ledger.reserved) == 1


def test_classes_that_were_not_declared_are_charged_too() -> None:
    account = Account()
    with pytest.warns(dp.PrivacyWarning):
        PrivateLogisticRegression(epsilon=1.0, delta=1e-5, max_iter=5, ledger=account).fit(ROWS, TARGET)
    assert (len(account.reserved), account.committed) == (1, [None])


def test_an_interrupted_fit_is_not_committed_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    first, model = Account(), ESTIMATORS[0][0]()
    model.set_params(ledger=first)

    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SecureGenerator, "normal", stopped)
        with pytest.raises(KeyboardInterrupt):
            model.fit(ROWS, TARGET)
    model.set_params(ledger=None).fit(ROWS, TARGET)
    assert (len(first.reserved), first.committed) == (1, [])


class Parts(Account):
    """Notes parts, too."""

    def reserve(self, run: Any, *, part: Any = None, done: int = 0) -> Account:
        super().reserve((run, part, done))
        return self


def test_batches_of_a_stream_are_charged_as_parts() -> None:
    account = Parts()
    model = ESTIMATORS[0][0](ledger=account)
    for first in range(0, N, 20):
        model.partial_fit(ROWS[first : first + 20], TARGET[first : first + 20])
    assert [(run.n, run.steps, part[1], done) for run, part, done in account.reserved] == [
        (20, 1, f"batch {k}", 0) for k in (1, 2, 3)
    ]
    (name,) = {part[0] for _, part, _ in account.reserved}
    assert account.committed == [None] * 3
    other = ESTIMATORS[0][0](ledger=account).partial_fit(ROWS, TARGET)
    model.fit(ROWS, TARGET)
    model.partial_fit(ROWS, TARGET)
    assert len({name, *(part[0] for _, part, _ in account.reserved if part)}) == 3  # each stream has a name of its own
    assert other.run_.n == N


def test_an_account_of_one_part_charges_that_part_alone() -> None:
    account = Parts()
    one = OnPart(account, ("stream", "batch 1"))
    one.reserve(RUN, done=2)
    assert account.reserved == [(RUN, ("stream", "batch 1"), 2)]
    with pytest.raises(dp.InputError, match="charged for one part already"):
        one.reserve(RUN, part=("validation", "scores"))
    assert len(account.reserved) == 1


def test_a_stream_is_charged_from_its_first_batch_to_its_last() -> None:
    for first, second in ((None, Parts()), (Parts(), None)):
        model = ESTIMATORS[0][0](ledger=first).partial_fit(ROWS[:30], TARGET[:30])
        with pytest.raises(dp.InputError, match="from its first batch to its last"):
            model.set_params(ledger=second).partial_fit(ROWS[30:], TARGET[30:])
        assert model.run_.n == 30
    with pytest.raises(dp.InputError, match="under add-remove only"):
        ESTIMATORS[0][0](ledger=Parts(), adjacency="replace").partial_fit(ROWS, TARGET)


def test_a_stream_after_an_interrupted_fit_commits_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first, model = Account(), ESTIMATORS[0][0]()

    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SecureGenerator, "normal", stopped)
        with pytest.raises(KeyboardInterrupt):
            model.set_params(ledger=first).fit(ROWS, TARGET)
    model.set_params(ledger=None).partial_fit(ROWS, TARGET)
    assert (len(first.reserved), first.committed) == (1, [])
