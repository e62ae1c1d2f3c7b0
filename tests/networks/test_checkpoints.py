"""A run that was stopped goes on exactly, never says that it cost less than it did, and refuses every file that is not its own."""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dplateau as dp
from dplateau.networks import Checkpoint, Score, Validation, noisy_adam, noisy_sgd, train_network
from dplateau.networks import checkpoint as saving
from dplateau.networks.checkpoint import Ledger, Saved, interval, locked, read, write
from dplateau.networks.loop import Loop
from dplateau.networks.shared import SharedLoop
from dplateau.networks.shared_compiled import SharedCompiledLoop
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Runs, Shuffled
from dplateau.spec.assumption import Processes
from dplateau.training import Cluster, SecureGenerator, TrainingDiverged, TrainingInterrupted

from .small import N, data, flat, loss, run_of, run_with_optimizer, seeded, start

SAMPLINGS = (Poisson(6.0), FixedSize(7), RandomAllocation(10), Cyclic(10), Shuffled((15, 5, 20)), FullBatch())
ADAM = noisy_adam(0.05)
THREADS = 2
"""With so many each step is a call of its own, as for large networks; otherwise small ones take several steps in one call."""


class StoppedError(Exception):
    """What a caller's own code throws."""


def stop_at(step, error=StoppedError):
    def progress(done, _):
        if done == step:
            raise error

    return progress


def go(run, path, *, every=4, seed=3, **changes):
    arguments = {"optimizer": None if run.update == "sgd" else ADAM, "workers": THREADS, **changes}
    generator = arguments.pop("generator", None) or (SecureGenerator() if seed is None else seeded(seed))
    return train_network(run, loss, start(), data(), generator=generator, checkpoint=Checkpoint(path, every), **arguments)


def ledger_of(path):
    with np.load(path) as file:
        head = json.loads(file["head"].tobytes())
    return head["done"], head["reserved"], [tuple(part) for part in head["lost"]]


def arrays_of(path):
    with np.load(path) as file:
        return [file[name] for name in file.files if name != "head"]


def watch(every=2, **changes):
    return Validation(lambda params: -float(np.sum(flat(params) ** 2)), every, "made up", **changes)


@pytest.mark.parametrize(("workers", "stops"), [(THREADS, (0, 1, 5, 8, 11)), (None, (0, 2, 4, 8, 10))], ids=["calls", "one call"])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: s.kind)
def test_a_stopped_run_goes_on_bit_for_bit_and_counts_what_was_lost(sampling, workers, stops, tmp_path):
    run, options = run_with_optimizer(sampling=sampling, steps=12), {"validation": watch(), "workers": workers}
    epoch = interval(run, 4)
    whole = go(run, tmp_path / "whole", **options)
    for step in stops:
        path = tmp_path / f"stopped at {step}"
        with pytest.raises(StoppedError):
            go(run, path, progress=stop_at(step), **options)
        result = go(run, path, **options)
        first = step // epoch * epoch
        lost = run.replace(steps=min(epoch, 12 - first))
        assert result.run == Runs((run, lost))
        assert ledger_of(path) == (12, 12, [(first, min(first + epoch, 12))])
        np.testing.assert_array_equal(flat(result.params), flat(whole.params))
        assert result.scores == whole.scores
        for one, two in zip(arrays_of(path), arrays_of(tmp_path / "whole"), strict=True):
            np.testing.assert_array_equal(one, two)
        how = {a.name: a.how for a in result.assumptions}
        assert (how["lost steps"], how["restarts"], how["one continuation"]) == ("enforced", "declared", "declared")


@pytest.mark.parametrize("workers", [THREADS, None], ids=["calls", "one call"])
def test_a_run_goes_on_with_the_sizes_and_the_noise_of_the_steps_that_are_left(workers, tmp_path):
    """Batches of the first sizes would be those of another run than the certificate's."""
    run = run_of(
        steps=12, sampling=Poisson([1.0, 2.0] * 4 + [30.0, 20.0, 35.0, 25.0]), noise_multiplier=[9.0] * 8 + [1.0, 2.0, 4.0, 3.0],
        step_size=[0.5] * 8 + [0.1, 0.2, 0.3, 0.4],
    )  # fmt: skip
    whole = go(run, tmp_path / "whole", workers=workers)
    with pytest.raises(StoppedError):
        go(run, tmp_path / "c", progress=stop_at(8), workers=workers)
    result = go(run, tmp_path / "c", workers=workers)
    np.testing.assert_array_equal(flat(result.params), flat(whole.params))
    assert result.run == Runs((run, run.part(8, 12)))


@pytest.mark.parametrize("sampling", [Poisson, FixedSize], ids=lambda kind: kind.__name__)
def test_processes_go_on_with_the_sizes_of_the_steps_that_are_left(sampling):
    run = run_of(steps=12, sampling=sampling([1] * 8 + [N] * 4))
    loop = SimpleNamespace(run=run, generator=SecureGenerator(), cluster=Cluster(), own=N, shares=[slice(0, 10), slice(10, N)])
    loop._plans_of = partial(SharedLoop._plans_of, loop)
    assert next(SharedLoop._plans(loop, 4, 8)).counts.tolist() == [N] * 4
    assert [plan.counts.tolist() for plan in next(SharedCompiledLoop._plans(loop, 4, 8))] == [[10] * 4, [N - 10] * 4]


def test_a_run_that_several_processes_began_says_so_where_one_goes_on(tmp_path, monkeypatch):
    run = run_with_optimizer(steps=12)
    with monkeypatch.context() as several:
        several.setattr(Loop, "processes", 3)
        with pytest.raises(StoppedError):
            go(run, tmp_path / "c", progress=stop_at(5))
    assert Processes(count=3) in go(run, tmp_path / "c").assumptions


def test_many_stops_are_all_counted_and_what_they_cost_grows(tmp_path):
    run = run_with_optimizer(steps=12, noise_multiplier=3.0)
    whole, epsilons = go(run, tmp_path / "whole"), [dp.account(run).epsilon]
    for stops in ((3,), (3, 2, 1), (5, 5, 4, 11, 8)):
        path = tmp_path / str(stops)
        for step in stops:
            with pytest.raises(StoppedError):
                go(run, path, progress=stop_at(step))
        result = go(run, path)
        np.testing.assert_array_equal(flat(result.params), flat(whole.params))
        epsilons.append(dp.account(result.run).epsilon)
        spent = [0] * 12  # Noise is drawn for four steps at once.
        for step in stops:
            for k in range(step // 4 * 4, step // 4 * 4 + 4):
                spent[k] += 1
        counted = [sum(first <= k < last for first, last in ledger_of(path)[2]) for k in range(12)]
        assert counted == spent
    assert epsilons == sorted(epsilons)
    assert epsilons[0] < epsilons[1]


def test_stops_with_fresh_randomness_never_meet_the_same_noise_again(tmp_path):
    run, seen = run_with_optimizer(steps=12), []
    look = Validation(lambda params: seen.append(flat(params)) or 0.0, 1, "made up")
    for step in (3, 3, 7, None):
        try:
            go(run, tmp_path / "c", seed=None, validation=look, progress=stop_at(step))
        except StoppedError:
            continue
    assert len({row.tobytes() for row in seen}) == len(seen) == 1 + 12 + 3 + 3 + 3
    assert ledger_of(tmp_path / "c")[2] == [(0, 4), (0, 4), (4, 8)]


class Reserving(SecureGenerator):
    """Asserts, before it gives any number, that the file allows for it."""

    path = Path()
    rows = 0

    def _words(self, count, memory=None):
        done, reserved, _ = ledger_of(self.path)
        assert done <= self.rows < reserved or not count
        return super()._words(count, memory)

    def normal_words(self, count, memory=None):
        values = super().normal_words(count, memory)
        self.rows += 1
        return values


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: s.kind)
def test_no_random_number_is_drawn_for_a_step_that_is_not_reserved(sampling, tmp_path):
    run, path = run_with_optimizer(sampling=sampling, steps=15), tmp_path / "c"
    for every, step in ((4, 6), (5, 9), (3, 99)):
        generator = Reserving()
        generator.path, generator.rows = path, ledger_of(path)[0] if path.exists() else 0
        begun = generator.rows
        try:
            go(run, path, every=every, generator=generator, progress=stop_at(step))
        except StoppedError:
            assert step < 15
        assert generator.rows > begun
    assert ledger_of(path)[0] == 15


@pytest.mark.parametrize(
    ("workers", "stops"),
    [(THREADS, ((0, 0), (3, 0), (4, 4), (10, 8))), (None, ((0, 0), (4, 4), (8, 8)))],
    ids=["calls", "one call"],
)
def test_an_interrupt_saves_what_was_done_and_loses_nothing(workers, stops, tmp_path):
    run = run_with_optimizer(steps=12)
    whole = go(run, tmp_path / "whole", workers=workers)
    for step, kept in stops:
        path = tmp_path / str(step)
        with pytest.raises(TrainingInterrupted, match=r"nothing was released .* to go on from /") as error:
            go(run, path, progress=stop_at(step, KeyboardInterrupt), workers=workers)
        assert isinstance(error.value, KeyboardInterrupt)
        assert error.value.__context__ is None
        assert ledger_of(path) == (kept, kept, [])
        result = go(run, path, workers=workers)
        assert result.run == run
        np.testing.assert_array_equal(flat(result.params), flat(whole.params))


@pytest.mark.parametrize("seed", [3, None])
def test_what_a_score_has_seen_is_not_forgotten_by_an_interrupt(seed, tmp_path):
    """Otherwise the steps were taken again with fresh noise, and both iterates would be seen for the price of one."""
    run, path, seen, scored = run_with_optimizer(steps=12), tmp_path / "c", {}, []

    def score(params):
        scored.append(flat(params))
        if len(scored) in (2, 4, 5):  # The first parameters are scored before anything is reserved.
            raise KeyboardInterrupt  # By who was shown a bad score, say.
        return 0.0

    look = Validation(score, 2, "made up")
    for _ in range(3):
        with pytest.raises(TrainingInterrupted):
            go(run, path, seed=seed, validation=look)
        seen[ledger_of(path)[0]] = scored[-1]
    result = go(run, path, seed=seed, validation=look)
    assert result.run == run
    assert [one.steps for one in result.scores] == [2, 4, 6, 8, 10, 12]
    assert sorted(seen) == [2, 4]
    distinct = {row.tobytes() for row in scored}
    assert len(distinct) == 1 + 6  # One iterate for each of the six scores, though nine were asked for.
    assert len(scored) == 1 + 9


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the archive is thrown away while it is open
def test_an_interrupt_while_the_archive_is_filled_is_an_interrupt(tmp_path, monkeypatch):
    """An entry is open then, and the archive's own complaint would hide the interrupt."""
    from zipfile import ZipFile

    opened = ZipFile.open

    def interrupted(archive, *_, **__):
        monkeypatch.setattr(ZipFile, "open", opened)  # once
        archive._writing = True
        raise KeyboardInterrupt

    monkeypatch.setattr(ZipFile, "open", interrupted)
    with pytest.raises(TrainingInterrupted):
        go(run_of(steps=8), tmp_path / "c")


# Where JAX or Python calls back and cannot raise, an interrupt is reported and forgotten.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment_hide_nothing_that_was_seen(tmp_path):
    """Every iterate that a score has seen is in the model or counted as lost, whenever the interrupts come."""
    run, path, seen = run_with_optimizer(steps=160), tmp_path / "c", {}

    def score(params):
        seen.setdefault(int(flat(params)[0]), set()).add(flat(params).tobytes())
        time.sleep(0.002)  # Here an interrupt is worst.
        return 0.0

    def counting(params, state, _):
        return jax.tree.map(lambda g: jnp.where(jnp.ndim(g) == 0, 1.0, g), params), state

    count = optax.GradientTransformation(lambda params: (), counting)
    options = {"optimizer": count, "validation": Validation(score, 1, "made up", keep_best=False), "microbatch": 8}

    params = {**start(), "a": np.zeros((), np.float32)}  # The first leaf counts the steps.

    def life(path):
        return train_network(run, counted, params, data(), checkpoint=Checkpoint(path, 4), **options)

    def counted(params, example):
        return loss({name: params[name] for name in "wbv"}, example) + 0 * params["a"] * example[1]

    life(tmp_path / "compiles")
    seen.clear()
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    random, interrupted = np.random.default_rng(), 0
    try:
        for _ in range(200):
            with jax.enable_x64(False):  # An interrupt may come between a setting of JAX and its end.
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.02, 0.08))
                try:
                    result = life(path)
                    break
                except KeyboardInterrupt:
                    interrupted += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
        else:
            result = life(path)
    finally:
        signal.signal(signal.SIGALRM, handler)
        gc.collect()  # What an interrupt left open.
    assert interrupted > 3
    done, _, lost = ledger_of(path)
    assert done == 160
    assert result.run.steps == 160 + sum(last - first for first, last in lost)
    for step, iterates in seen.items():
        assert len(iterates) <= 1 + sum(first < step <= last for first, last in lost)


def test_an_interrupt_that_meets_a_lock_is_one(tmp_path):
    """Python's ``Condition`` then raises another error on its way out."""

    def meets(done, _):
        if done == 7:
            try:
                raise KeyboardInterrupt
            finally:
                threading.Lock().release()

    with pytest.raises(TrainingInterrupted):
        go(run_with_optimizer(steps=15), tmp_path / "c", every=1, validation=watch(1), progress=meets)

    def fails(done, _):
        threading.Lock().release()

    with pytest.raises(RuntimeError, match="unlocked"):
        go(run_with_optimizer(steps=15), tmp_path / "d", every=1, validation=watch(1), progress=fails)


def test_an_interrupt_within_an_epoch_costs_the_epoch(tmp_path):
    run, path = run_with_optimizer(sampling=Cyclic(8), steps=15), tmp_path / "c"
    with pytest.raises(TrainingInterrupted):
        go(run, path, every=1, validation=watch(1), progress=stop_at(7, KeyboardInterrupt))
    assert ledger_of(path) == (5, 10, [])
    assert go(run, path, every=1, validation=watch(1)).run == Runs((run, run.replace(steps=5)))


def test_checkpoints_of_epochs_are_at_their_ends():
    for sampling in (Cyclic(9), Shuffled(9), RandomAllocation(9), Cyclic((5, 15, 10, 7, 3))):
        run = run_of(sampling=sampling, steps=20)
        assert [interval(run, every) for every in (1, 5, 6, 11)] == [5, 5, 10, 15]
    assert interval(run_of(), 7) == 7


def test_one_pass_takes_no_checkpoint_and_that_costs_nothing(tmp_path):
    run, account = run_of(sampling=OnePass(1)), Account()
    with pytest.raises(InputError, match="one-pass run takes no checkpoint"):
        train_network(run, loss, start(), data(), checkpoint=Checkpoint(tmp_path / "c"), ledger=account)
    assert account.reserved == []
    assert not (tmp_path / "c").exists()


def test_other_errors_count_as_lost(tmp_path):
    run = run_with_optimizer(steps=12, noise_multiplier=30.0)

    def broken(params):
        if (flat(params) == flat(start())).all():
            return 0.0
        raise StoppedError

    for case, (error, changes) in enumerate(
        [
            (StoppedError, {"validation": Validation(broken, 4, "made up")}),
            (InputError, {"validation": Validation(lambda _: float("nan"), 4, "made up")}),
            (TrainingDiverged, {"optimizer": noisy_sgd(3e38)}),
        ]
    ):
        path = tmp_path / str(case)
        with pytest.raises(error):
            go(run, path, **changes)
        assert ledger_of(path) == (0, 4, [])
    path = tmp_path / "0"
    assert go(run, path, validation=watch(4)).run == Runs((run, run.replace(steps=4)))


def test_a_finished_run_is_only_read(tmp_path):
    run, path = run_with_optimizer(steps=8), tmp_path / "c"
    result = go(run, path, seed=None, validation=watch())
    before = path.read_bytes()
    generator = SecureGenerator()
    with pytest.warns(
        UserWarning, match="is the checkpoint of a run that has ended: its model is returned, and nothing is trained"
    ):
        again = go(run, path, generator=generator, validation=watch())
    assert generator.drawn == 0
    assert again.run == run
    assert again.scores == result.scores
    np.testing.assert_array_equal(flat(again.params), flat(result.params))
    assert arrays_of(path)[0].tobytes() in before


class Account:
    """Notes what is reserved, and what the generator had drawn by then; or has nothing left."""

    def __init__(self, generator=None, *, empty=False):
        self.generator, self.empty, self.reserved, self.committed = generator, empty, [], 0

    def reserve(self, run, *, part=None, done=0):
        if self.empty:
            raise dp.BudgetError("nothing was reserved")
        self.reserved.append((run, done, self.generator and self.generator.drawn))
        return self

    def commit(self, certificate=None):
        self.committed += 1


def test_a_run_that_goes_on_is_charged_for_the_steps_that_are_left(tmp_path):
    run, path = run_with_optimizer(steps=12), tmp_path / "c"
    first = Account(SecureGenerator())
    with pytest.raises(StoppedError):
        go(run, path, generator=first.generator, ledger=first, progress=stop_at(9))
    assert (first.reserved, first.committed) == ([(run, 0, 0)], 0)
    before, generator = path.read_bytes(), SecureGenerator()
    with pytest.raises(dp.BudgetError):
        go(run, path, generator=generator, ledger=Account(empty=True))
    assert (path.read_bytes(), generator.drawn) == (before, 0)
    second = Account(SecureGenerator())
    refused(
        run, path, "is charged to a ledger, and what it takes again must be, too: pass the account", generator=SecureGenerator()
    )
    result = go(run, path, generator=second.generator, ledger=second)
    assert (second.reserved, second.committed) == ([(run, 8, 0)], 1)
    assert result.run == Runs((run, run.replace(steps=4)))
    third = Account()
    go(run, path, seed=None, ledger=third)
    assert (third.reserved, third.committed) == ([], 0)  # It is finished: nothing is drawn.


def test_a_run_that_began_without_a_ledger_pays_for_its_first_steps_too(tmp_path):
    """A reservation of the same run that the account may have is that of another training."""
    run, path, account = run_with_optimizer(steps=12), tmp_path / "c", Account()
    with pytest.raises(StoppedError):
        go(run, path, seed=None, progress=stop_at(9))
    assert ledger_of(path)[:2] == (8, 12)
    result = go(run, path, seed=None, ledger=account)
    assert [(run, done) for run, done, _ in account.reserved] == [(run.part(8, 12), 0), (run, 0)]
    assert result.run == Runs((run, run.part(8, 12)))
    assert account.committed == 2


def test_a_run_that_stopped_early_is_charged_only_where_it_goes_on(tmp_path):
    run, path, values = run_with_optimizer(steps=12), tmp_path / "c", iter([0.0, 2.0, 1.0, 0.0])
    stopping = Validation(lambda _: next(values), 2, "made up", patience=2)
    accounts = [Account() for _ in range(3)]
    for account, validation in zip(accounts, (stopping, stopping, watch()), strict=True):
        go(run, path, seed=None, validation=validation, ledger=account)
    assert [[done for _, done, _ in account.reserved] for account in accounts] == [[0], [], [6]]


def test_a_run_goes_on_with_other_intervals(tmp_path):
    run, path = run_with_optimizer(steps=24), tmp_path / "c"
    with pytest.raises(StoppedError):
        go(run, path, every=10, validation=watch(5), progress=stop_at(10))
    result = go(run, path, every=8, validation=watch(4))
    assert [one.steps for one in result.scores] == [5, 10, 12, 16, 20, 24]
    assert result.run == Runs((run, run.replace(steps=10)))


def test_the_file_holds_no_record_and_no_key(tmp_path):
    run, path = run_with_optimizer(steps=8), tmp_path / "c"
    go(run, path, seed=None)
    with np.load(path) as file:
        head, size = json.loads(file["head"].tobytes()), sum(file[name].size for name in file.files if name != "head")
    assert set(head) == {"kind", "format", "run", "done", "reserved", "lost", "processes", "charged", "notes", "insecure", "drawn"}
    assert (head["insecure"], head["drawn"], head["notes"]) == (False, 0, {"scores": []})
    assert size == 3 * 20 + 1  # Weights, two moments, a counter.
    assert {entry.name for entry in tmp_path.iterdir()} == {"c", "c.lock"}


FOREIGN = {
    "empty": lambda content: b"",
    "text": lambda content: b"a model",
    "cut": lambda content: content[: len(content) // 2],
    "cut at its end": lambda content: content[:-1],
    "pickle": lambda content: b"\x80\x04K\x01.",
    "damaged": lambda content: content.replace(b"dplateau checkpoint", b"dplateau cneckpoint"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_that_are_no_checkpoint_give_one_clear_error_and_stay(name, tmp_path):
    run, path = run_with_optimizer(steps=4), tmp_path / "c"
    go(run, path)
    path.write_bytes(FOREIGN[name](path.read_bytes()))
    refused(run, path, "not a checkpoint of this version, or it is damaged")


OTHER_KINDS = {
    "a folder": (Path.mkdir, "is not a file"),
    "a pipe": (os.mkfifo, "is not a file"),
    "a device that never ends": (lambda path: path.symlink_to("/dev/zero"), "is not a file"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "is not a file"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read"),
    "too large": (lambda path: (path.touch(), os.truncate(path, 1 << 40)), r"has more than \d+,\d+ bytes"),
}


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_what_is_no_small_file_is_refused_and_not_read_to_its_end(name, tmp_path, monkeypatch):
    made, message = OTHER_KINDS[name]
    monkeypatch.setattr(saving, "LARGEST", 10_000)
    kept = Checkpoint(tmp_path / "c", 4)
    made(tmp_path / "c")
    with pytest.raises(InputError, match=message) as error:
        train_network(run_with_optimizer(steps=4), loss, start(), data(), optimizer=ADAM, checkpoint=kept)
    assert "\n" not in str(error.value)


def refused(run, path, message, **changes):
    before = path.read_bytes()
    with pytest.raises(InputError, match=message) as error:
        go(run, path, **changes)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == before


OTHER = [
    *(
        {"kind": "another"},
        {"format": 2},
        {"done": "x"},
        {"done": "4"},
        {"done": 1.5},
        {"done": -1},
        {"reserved": -4},
        {"drawn": -1},
    ),
    *({"lost": [[1]]}, {"lost": None}, {"lost": [[-5, 2]]}, {"notes": 3}, {"notes": {}}, {"notes": {"scores": [[1]]}}),
    *({"processes": -1}, {"drawn": -1}),
]
MORE = [{"done": 5, "reserved": 5}, {"reserved": 3}, {"reserved": 5}, {"lost": [[2, 2]]}, {"lost": [[0, 5]]}, {"processes": 0}]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *((one, "not a checkpoint of this version, or it is damaged") for one in OTHER),
        *((one, "was changed: it counts steps that the run does not have") for one in MORE),
    ],
)
def test_heads_of_another_kind_are_refused(change, said, tmp_path):
    """Negative numbers of steps would take others off what is counted."""
    run, path = run_with_optimizer(steps=4), tmp_path / "c"
    go(run, path)
    with np.load(path) as file:
        head, arrays = json.loads(file["head"].tobytes()) | change, {name: file[name] for name in file.files if name != "head"}
    with path.open("wb") as file:
        np.savez(file, head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
    refused(run, path, said)


def test_arrays_of_another_kind_are_refused(tmp_path):
    run, path = run_with_optimizer(steps=4), tmp_path / "c"
    for save in (
        lambda f: np.save(f, np.zeros(3)),
        lambda f: np.savez(f, a0=np.zeros(3)),
        lambda f: np.savez(f, head=np.zeros(3, object)),
    ):
        with path.open("wb") as file:
            save(file)
        refused(run, path, "not a checkpoint of this version, or it is damaged")


def test_every_damaged_byte_is_noticed_or_harmless(tmp_path):
    run, path, like = run_of(steps=4), tmp_path / "c", [np.arange(6.0).reshape(2, 3)]
    saved = Saved(Ledger(8, 12, ((0, 4), (4, 8))), like, {"scores": [[4, 0.5]]})
    write(path, run, saved)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= int(rng.integers(1, 256))
        try:
            found = read(path, bytes(damaged), run, like, SecureGenerator())
        except InputError:
            continue
        assert found.ledger == saved.ledger
        assert found.notes == saved.notes
        np.testing.assert_array_equal(found.arrays[0], like[0])


def test_checkpoints_of_something_else_are_refused(tmp_path):
    run, path = run_with_optimizer(steps=8), tmp_path / "c"
    with pytest.raises(StoppedError):
        go(run, path, progress=stop_at(5))
    refused(run.replace(steps=9), path, "belongs to another run")
    refused(run.replace(noise_multiplier=1.1), path, "belongs to another run")
    refused(run_of(steps=8), path, "belongs to another run")
    refused(run, path, "another model, optimizer or validation", optimizer=noisy_sgd(0.1))
    refused(run, path, "another model, optimizer or validation", validation=watch())
    refused(run, path, "made with an insecure seed", seed=None)
    used = seeded()
    used.skip(10_000)
    refused(run, path, "generator was used before", generator=used)
    bigger, examples = {**start(), "v": np.zeros((4, 1), np.float32)}, data()
    with pytest.raises(InputError, match="another model"):
        train_network(run, loss, bigger, examples, optimizer=ADAM, generator=seeded(), checkpoint=Checkpoint(path, 4))
    fresh = tmp_path / "fresh"
    with pytest.raises(StoppedError):
        go(run, fresh, seed=None, progress=stop_at(5))
    refused(run, fresh, "made with fresh randomness")


def test_an_optimizer_whose_state_no_checkpoint_holds_is_refused(tmp_path):
    noisy = optax.chain(optax.add_noise(0.1, 0.1, 0), optax.sgd(0.1))  # It keeps a key.
    with pytest.raises(InputError, match="keeps random keys"):
        go(run_with_optimizer(steps=4), tmp_path / "c", optimizer=noisy)
    assert not (tmp_path / "c").exists()


def test_two_at_one_checkpoint(tmp_path):
    run, path, tried = run_with_optimizer(steps=8), tmp_path / "c", []

    def second(done, _):
        if done == 2:
            with pytest.raises(InputError, match="another process is at work"):
                go(run, path)
            tried.append(done)

    result = go(run, path, progress=second)
    assert tried == [2]
    assert result.run == run
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print('ready', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, f"{path}.lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "ready\n"
        refused(run, path, "another process is at work")
        other.kill()
    assert go(run, path).run == run  # The lock died with its owner.
    with open(f"{path}.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lock_leaves_a_file_of_its_name_as_it_is(tmp_path):
    lock = tmp_path / "poetry.lock"
    lock.write_text("versions")
    with locked(tmp_path / "poetry"):
        pass
    assert lock.read_text() == "versions"


def test_a_checkpoint_leaves_a_file_of_another_name_as_it_is(tmp_path):
    other = tmp_path / "c.new"
    other.write_text("of the user")
    go(run_with_optimizer(steps=2), tmp_path / "c")
    assert other.read_text() == "of the user"


def test_a_file_system_without_locks_is_one_line(tmp_path, monkeypatch):
    def without(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without)
    with pytest.raises(InputError, match=r"cannot be locked \(No locks available\): choose another path\.$"):
        go(run_with_optimizer(steps=2), tmp_path / "c")


def test_a_file_that_cannot_be_written_is_an_error_and_leaves_the_old_one(tmp_path, monkeypatch):
    run, path = run_with_optimizer(steps=12), tmp_path / "c"
    with pytest.raises(InputError, match="cannot be written"):
        go(run, tmp_path / "nowhere" / "c")
    (tmp_path / "d").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "d", run, Saved(Ledger(), []))
    with pytest.raises(StoppedError):
        go(run, path, progress=stop_at(5))
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patched:
            patched.setattr(saving.os, name, full)
            refused(run, path, "No space left on device")
        assert path.read_bytes() == before
        assert not path.with_name(".c.new").exists()


def test_the_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        done = getattr(os, name)
        monkeypatch.setattr(saving.os, name, lambda *a, done=done, name=name: calls.append(name) or done(*a))
    write(tmp_path / "c", run_of(), Saved(Ledger(), [np.zeros(3)]))
    assert calls == ["fsync", "replace", "fsync"]


def test_ledgers():
    run = run_of(steps=4, sampling=Poisson([1, 2, 3, 4]), noise_multiplier=[5, 6, 7, 8], step_size=[0.1, 0.2, 0.3, 0.4])
    ledger = Ledger(1, 3).resumed()
    assert ledger == Ledger(1, 1, ((1, 3),))
    assert ledger.resumed() == ledger
    lost = run_of(steps=2, sampling=Poisson([2, 3]), noise_multiplier=[6, 7], step_size=[0.2, 0.3])
    assert ledger.runs(run) == Runs((run, lost))
    assert Ledger(4, 4).runs(run) is run
    twice = Ledger(2, 4, ledger.lost).resumed().runs(run)
    assert [part.noise_multiplier for part in twice.runs[1:]] == [(6, 7), (7, 8)]
    epochs = run_of(steps=6, sampling=Cyclic((5, 15, 20)), noise_multiplier=list(range(1, 7)))
    (part,) = Ledger(3, 3, ((3, 6),)).runs(epochs).runs[1:]
    assert part == epochs.replace(steps=3, noise_multiplier=(4, 5, 6))
    assert part.sampling == epochs.sampling


def test_early_stopping_and_the_best_iterate(tmp_path):
    values, seen = iter([0.0, 1.0, 3.0, 2.0, 3.0, 0.0, 9.0]), []

    def score(params):
        seen.append(flat(params))
        return next(values)

    run = run_of(steps=20)
    validation = Validation(score, 2, "made up", patience=3)
    generator = seeded()
    result = go(run, tmp_path / "c", generator=generator, validation=validation)
    assert result.scores == (Score(2, 1.0), Score(4, 3.0), Score(6, 2.0), Score(8, 3.0), Score(10, 0.0))
    assert result.steps == 10
    assert result.run == run  # All steps are paid for.
    np.testing.assert_array_equal(flat(result.params), seen[2])
    again = go(run, tmp_path / "c", validation=validation)
    assert (again.steps, again.scores, again.run) == (10, result.scores, run)
    np.testing.assert_array_equal(flat(again.params), seen[2])
    found = {a.name: a for a in result.assumptions}
    assert found["validation"].how == "declared"
    assert "made up" in found["validation"].statement
    values = iter([0.0, 1.0, 3.0, 2.0, 3.0, 0.0, 9.0])
    seen.clear()
    last = go(run, tmp_path / "last", validation=Validation(score, 2, "made up", patience=3, keep_best=False))
    np.testing.assert_array_equal(flat(last.params), seen[-1])


@pytest.mark.parametrize("sampling", [Cyclic(8), Shuffled(8), RandomAllocation(8)], ids=lambda s: s.kind)
def test_a_run_that_stopped_early_within_an_epoch_does_not_go_on(sampling, tmp_path):
    """Its next batches would hold records that had their turn in this epoch, and the run says that they are used once."""
    values = iter([0.0, 2.0, 1.0, 0.0])
    run, path = run_with_optimizer(sampling=sampling, steps=15), tmp_path / "c"
    stopping = Validation(lambda _: next(values), 1, "made up", patience=2)
    result = go(run, path, validation=stopping)
    assert (result.steps, ledger_of(path)) == (3, (3, 3, []))
    again = go(run, path, validation=stopping)
    assert (again.steps, again.run) == (3, run)
    refused(run, path, "stopped early after 3 steps, within an epoch of 5", validation=watch(1))
    at_its_end = iter([0.0, 2.0, 1.0, 0.0])
    path = tmp_path / "d"
    assert go(run, path, validation=Validation(lambda _: next(at_its_end), 5, "made up", patience=1)).steps == 10
    assert go(run, path, validation=watch(5)).steps == 15


def test_scores_are_taken_at_their_steps_and_at_the_end():
    result = train_network(run_of(steps=11), loss, start(), data(), validation=Validation(lambda _: -np.inf, 4.0, "made up"))
    assert [one.steps for one in result.scores] == [4, 8, 11]
    assert result.steps == 11


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((len, 0, "made up"), "every is 0"),
        ((len, 2.5, "made up"), "every is 2.5"),
        ((None, 2, "made up"), "score is not a function"),
        ((len, 2, " "), "declared_public is empty"),
        ((len, 2, "made up", True, 0), "patience is 0"),
    ],
)
def test_validations_that_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Validation(*arguments)


def test_a_score_that_is_no_number_is_an_error():
    with pytest.raises(InputError, match="NaN after 4 steps"):
        train_network(run_of(), loss, start(), data(), validation=Validation(lambda _: float("nan"), 4, "made up"))


@pytest.mark.parametrize("path", [".", "", "/", 3])
def test_paths_that_are_refused(path):
    with pytest.raises(InputError, match=r"the checkpoint (. is a folder: name a file in it|is of type int: expected a path)"):
        Checkpoint(path)


@pytest.mark.parametrize("every", [0, -1, 1.5, "x"])
def test_intervals_that_are_refused(every, tmp_path):
    with pytest.raises(InputError, match="every is"):
        Checkpoint(tmp_path / "c", every)
