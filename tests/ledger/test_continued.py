"""A run that goes on pays for the steps that are left, on every database; and for all of them where nobody paid for the first."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest

import dplateau as dp
from dplateau.certificate import make_certificate
from dplateau.filter import cost_of
from dplateau.ledger import account as accounts
from dplateau.ledger import verify as verifying
from dplateau.ledger.entry import canonical
from dplateau.report.ledger import account_text

Z = (32.0, 28.0, 24.0, 20.0, 16.0, 12.0)


@pytest.fixture
def schedule(full):
    return full(Z, steps=6)


def costs(account):
    return account.state().spent / (1 + 1e-9)


@pytest.mark.parametrize("notion", ["renyi", "gaussian"])
@pytest.mark.parametrize("part", [None, ("shards", "north")])
def test_the_steps_that_are_left_are_all_it_costs(url, schedule, notion, part):
    ledger = dp.Ledger(url)
    ledger.create("a", n=1000, epsilon=8.0, delta=1e-6, notion=notion)
    account = ledger.account("a")
    order = account.state().order

    def squared(first):  # Gaussians: their costs add up.
        return sum(1 / z**2 for z in Z[first:]) * (1 if order is None else order / 2)

    reserved = account.reserve(schedule, part=part)
    assert (reserved.cost, reserved.done) == (pytest.approx(squared(0)), 0)
    for done in (2, 5, 2):
        before = account.state().spent
        reserved = account.reserve(schedule, part=part, done=done)
        assert (reserved.cost, reserved.done, reserved.run) == (pytest.approx(squared(done)), done, schedule)
        assert account.state().spent - before == pytest.approx(squared(done))
        reserved.commit()
    assert account.reserve(schedule, part=part, done=0).cost == pytest.approx(squared(0))
    assert ledger.verify(costs=True) == []
    bodies = [entry.data for entry in ledger.entries("a") if entry.kind == "reserved"]
    assert [body.get("done") for body in bodies] == [None, 2, 5, 2, None]
    assert all(dp.Run.from_dict(body["run"]) == schedule for body in bodies)


def test_sampled_steps_cost_what_the_part_costs(account):
    run = dp.Run(n=1000, sampling=dp.Poisson([50] * 20 + [80] * 20), steps=40, noise_multiplier=3.0)
    account.reserve(run)
    order = account.state().order
    assert account.reserve(run, done=30).cost == cost_of(run.part(30, 40), order) < cost_of(run, order)
    epochs = dp.Run(n=1000, sampling=dp.Shuffled(100), steps=30, noise_multiplier=9.0)
    account.reserve(epochs)
    assert account.reserve(epochs, done=20).cost == cost_of(epochs.replace(steps=10), order)


def test_a_commit_asks_for_the_certificate_of_the_whole_run(ledger, account):
    train = pytest.importorskip("dplateau.training").train
    from dplateau.losses import Logistic

    run = dp.Run(n=1000, sampling=dp.FullBatch(), steps=4, noise_multiplier=20.0, step_size=0.5)
    rows = np.random.default_rng(0).normal(size=(1000, 3)) / 3
    certificate = make_certificate(dp.account(run, 1e-6), train(run, Logistic(), rows, rows[:, 0] > 0))
    account.reserve(run)
    account.reserve(run.replace(steps=5))
    other = account.reserve(run.replace(steps=5), done=3)
    with pytest.raises(dp.InputError, match="another run"):
        other.commit(certificate)
    account.reserve(run, done=3).commit(certificate)
    assert ledger.entries()[-1].data["certificate_sha256"]


@pytest.mark.parametrize("done", [-1, 1.5, "2", True, None, float("nan"), 6, 7])
def test_numbers_of_steps_that_are_refused(account, schedule, done):
    account.reserve(schedule)
    with pytest.raises(dp.InputError, match="done is") as error:
        account.reserve(schedule, done=done)
    assert "\n" not in str(error.value)
    assert account.state().reserved == 1


@pytest.mark.parametrize("sampling", [dp.Shuffled(100), dp.RandomAllocation(100), dp.Cyclic(100)], ids=lambda one: one.kind)
def test_a_run_goes_on_at_the_beginning_of_an_epoch(account, sampling):
    run = dp.Run(n=1000, sampling=sampling, steps=30, noise_multiplier=9.0)
    account.reserve(run)
    with pytest.raises(dp.InputError, match=r"done is 17, and an epoch has 10 steps: .* Go on after step 10\.$"):
        account.reserve(run, done=17)
    account.reserve(run, done=10)


def test_last_iterates_and_several_runs_do_not_go_on(account, full):
    last = full(9.0, steps=4, step_size=0.1, smoothness=1.0, strong_convexity=0.0, released="last")
    account.reserve(last)
    with pytest.raises(dp.InputError, match=r"done is for runs that release all iterates"):
        account.reserve(last, done=2)
    several = dp.compose(full(9.0), full(9.0))
    account.reserve(several)
    with pytest.raises(dp.InputError, match="done is for one run"):
        account.reserve(several, done=1)
    assert account.state().reserved == 2


def test_first_steps_that_nobody_paid_for_are_refused(ledger, account, schedule):
    ledger.create("other", n=1000, epsilon=8.0, delta=1e-6)
    ledger.account("other").reserve(schedule)
    account.reserve(schedule.replace(noise_multiplier=9.0))
    account.reserve(schedule, part=("shards", "north"))
    for part in (None, ("shards", "south"), ("years", "north")):
        with pytest.raises(dp.InputError, match=r"has no reservation of this run, so its first 2 steps were never taken out"):
            account.reserve(schedule, part=part, done=2)
    assert account.state().reserved == 2
    account.reserve(schedule, part=("shards", "north"), done=2)
    assert ledger.verify(costs=True) == []


def test_a_refusal_says_what_would_fit_and_it_does(account):
    run = dp.Run(n=1000, sampling=dp.Poisson(50), steps=400, noise_multiplier=3.0)
    account.reserve(run)
    with pytest.raises(dp.BudgetError, match=r"^the run, from step 101 on, costs .* reserved as a run of its own") as refused:
        account.reserve(run, done=100)
    said = str(refused.value)
    rest = run.part(100, 400)
    z = float(said.split("noise_multiplier ")[1].split(",")[0])
    steps = int(said.split("the first ")[1].split(" of its 300 steps")[0])
    for more in (rest.replace(noise_multiplier=0.99 * z), rest.part(0, steps + 1)):
        with pytest.raises(dp.BudgetError):
            account.reserve(more)
    account.reserve(rest.part(0, steps))


def test_a_list_of_entries_says_from_where_it_goes_on(ledger, account, schedule):
    account.reserve(schedule)
    account.reserve(schedule, done=2)
    from rich.console import Console

    console = Console(width=120)
    with console.capture() as capture:
        console.print(account_text(account.state(), ledger.entries("patients")))
    shown = capture.get()
    assert "reserved: 6 steps; a test" in shown
    assert "reserved: 6 steps, from step 3 on; a test" in shown


def test_the_batches_of_a_stream_take_one_line(ledger, account, full):
    from rich.console import Console

    for batch in range(21):
        account.reserve(full(60.0, n=10), part=("stream a", f"batch {batch}"))
    account.reserve(full(60.0, n=10), part=("shards", "north"))
    console = Console(width=120)
    with console.capture() as capture:
        console.print(account_text(account.state(), ledger.entries("patients")))
    shown = capture.get()
    assert "21 parts" in shown
    assert "of stream a: " in shown
    assert "part north" in shown
    assert "part batch" not in shown


MUTANTS = {
    "nothing": lambda run, done: (run.replace(noise_multiplier=1e6) if done else run, done),
    "the first steps": lambda run, done: (run.part(0, done) if done else run, done),
    "one step less": lambda run, done: (run.part(done + 1, run.steps) if done else run, done),
    "one step": lambda run, done: (run.part(done, done + 1) if done else run, done),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_an_account_that_takes_less_is_found(ledger, account, schedule, monkeypatch, name):
    monkeypatch.setattr(accounts, "continued", MUTANTS[name])
    account.reserve(schedule)
    account.reserve(schedule, done=2)
    found = [one for one in ledger.verify(costs=True) if one.startswith("entry 3")]
    assert len(found) == 1
    assert "says that its run costs" in found[0]


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (2, "entry 3 says that its run costs"),
        (5, None),
        *((bad, "entry 3 reserves what cannot go on") for bad in (-1, "2", 6, 0.5)),
    ],
)
def test_verify_recomputes_what_goes_on(ledger, account, schedule, monkeypatch, done, said):
    """The chain holds, and the cost is that of the last step: as somebody who may write would do it."""
    account.reserve(schedule)
    append = accounts.book.append
    monkeypatch.setattr(
        accounts.book, "append", lambda *given, body, **fields: append(*given, body={**body, "done": done}, **fields)
    )
    account.reserve(schedule, done=5)
    found = ledger.verify(costs=True)
    assert [one[: len(said or "")] for one in found] == ([] if said is None else [said])


def test_verify_finds_a_run_that_goes_on_and_never_began(ledger, account, schedule, monkeypatch):
    monkeypatch.setattr(accounts.book, "has_run", lambda *_: True)
    account.reserve(schedule, done=2)
    assert ledger.verify() == ["entry 2 goes on with a run that was not reserved before."]


def test_entries_without_the_field_stay_readable(ledger, account, schedule):
    account.reserve(schedule)
    entry = ledger.entries()[-1]
    assert set(entry.data) == {"purpose", "run"}
    assert entry.body == canonical({"purpose": "a test", "run": json.loads(canonical(schedule.to_dict()))})
    assert verifying.problems(ledger.entries(), None, costs=True) == []


TRAINING = """
    import sys, time
    import numpy as np, jax.numpy as jnp
    import dplateau as dp
    from dplateau.networks import Checkpoint, train_network

    url, path, slow = sys.argv[1:]
    rows = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    run = dp.Run(n=200, sampling=dp.FullBatch(), steps=60, noise_multiplier=40.0, step_size=0.1)

    def progress(done, _):
        print(done, flush=True)
        if slow == "slow" and done >= 34:
            time.sleep(60)

    train_network(run, lambda w, row: jnp.sum((row @ w) ** 2), np.ones(3, np.float32), rows, checkpoint=Checkpoint(path, 10),
                  progress=progress, ledger=dp.Ledger(url).account("people"), workers=2)
"""


def test_a_killed_network_pays_for_what_is_left(tmp_path):
    pytest.importorskip("jax")
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    ledger.create("people", n=200, epsilon=5.0, delta=1e-5, notion="gaussian")
    command = [sys.executable, "-c", textwrap.dedent(TRAINING), ledger.url, str(tmp_path / "c")]
    with subprocess.Popen([*command, "slow"], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        for line in killed.stdout:
            if int(line) >= 34:
                killed.send_signal(signal.SIGKILL)
                break
    assert killed.wait() == -signal.SIGKILL
    account = ledger.account("people")
    assert (account.state().reserved, account.state().committed) == (1, 0)
    done = subprocess.run([*command, "fast"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) == 30
    assert account.state().spent == pytest.approx((60 + 30) / 40**2)
    assert [entry.data.get("done") for entry in ledger.entries("people") if entry.kind == "reserved"] == [None, 30]
    assert account.state().committed == 1
    again = subprocess.run([*command, "fast"], capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    assert account.state().spent == pytest.approx((60 + 30) / 40**2)  # It is finished: nothing is drawn.
    assert ledger.verify(costs=True) == []


def test_what_was_lost_without_the_ledger_is_paid_when_the_network_goes_on_with_it(tmp_path):
    pytest.importorskip("jax")
    from dplateau.networks import Checkpoint, train_network

    class PowerCutError(Exception):
        pass

    def fail(done, _):
        if done == 7:
            raise PowerCutError

    ledger = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    ledger.create("people", n=200, epsilon=5.0, delta=1e-5, notion="gaussian")
    account, rows = ledger.account("people"), np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    run = dp.Run(n=200, sampling=dp.FullBatch(), steps=60, noise_multiplier=40.0, step_size=0.1)
    train = partial(
        *(train_network, run, lambda w, row: (row @ w) ** 2, np.ones(3, np.float32), rows),
        checkpoint=Checkpoint(tmp_path / "c", 10),
        workers=2,
    )
    for paid in (None, None, account, account):  # Ten steps are lost each time; two of the four trainings have no ledger.
        with pytest.raises(PowerCutError):
            train(progress=fail, ledger=paid)
    assert account.state().spent == pytest.approx((10 + 10 + 60 + 60) / 40**2)
    result = train(ledger=account)
    assert [one.steps for one in result.run.runs] == [60, 10, 10, 10, 10]
    assert account.state().spent == pytest.approx((10 + 10 + 60 + 60 + 60) / 40**2)
    assert ledger.verify(costs=True) == []
