"""``train_stream``: the steps of ``train`` under random allocation, with few records in memory at once."""

from itertools import pairwise

import numpy as np
import pytest

import dplateau as dp
from dplateau.losses import Logistic, Softmax
from dplateau.spec import InputError
from dplateau.training import SecureGenerator, TrainingInterrupted, stream, train, train_stream

N, D = 1_000, 7


def table(n=N, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, D)) / 3
    return rows, np.argmax(rows[:, :classes] + 0.1 * rng.normal(size=(n, classes)), axis=1).astype(float)


def run_of(**changes):
    given = {"n": N, "sampling": dp.RandomAllocation(50), "steps": 60, "noise_multiplier": 2.0, "clip_norm": 1.0, "step_size": 0.5}
    return dp.Run(**{**given, **changes})


class Source:
    """Readings of a table in blocks whose lengths change from reading to reading."""

    def __init__(self, rows, labels):
        self.rows, self.labels, self.readings = rows, labels, 0

    def __call__(self):
        self.readings += 1
        size = 37 + 11 * self.readings
        return ((self.rows[i : i + size], self.labels[i : i + size]) for i in range(0, len(self.rows), size))


class Quiet(SecureGenerator):
    """Draws batches from a seed of its own, and no noise, so that how steps are gathered makes no difference."""

    def __init__(self, seed=0):
        super().__init__(insecure_seed=seed)
        self.draws = np.random.default_rng(seed)

    def integers(self, high, shape):
        return self.draws.integers(0, high, shape)

    def normal(self, shape):
        return np.zeros(shape)


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)], ids=repr)
@pytest.mark.parametrize("released", ["all", "last"])
def test_the_steps_are_those_of_train_whatever_is_kept_in_memory(loss, released):
    rows, labels = table(classes=max(2, loss.outputs))
    run = run_of(steps=47, released=released)  # two epochs and a part of the third
    known = train(run, loss, rows, labels, generator=Quiet(), dtype="float64", l2=0.01).weights
    for kept in (1, 120, 400, 10_000):
        source = Source(rows, labels)
        found = train_stream(run, loss, source, rows=kept, generator=Quiet(), l2=0.01)
        np.testing.assert_array_equal(found.weights, known)
        group = max(1, min(kept // 50, 20))
        assert source.readings == 1 + 2 * -(-20 // group) + -(-7 // group)
        assert found.run == run


def test_by_default_records_of_so_many_bytes_are_kept(monkeypatch):
    rows, labels = table()
    for kept, dtype in ((120, np.float64), (120, np.float32), (10_000, np.float32)):
        sources = Source(rows.astype(dtype), labels), Source(rows.astype(dtype), labels)
        monkeypatch.setattr(stream, "BYTES", kept * (D * np.dtype(dtype).itemsize + 8))
        train_stream(run_of(), Logistic(), sources[0])
        train_stream(run_of(), Logistic(), sources[1], rows=kept)
        assert sources[0].readings == sources[1].readings == (4 if kept == 10_000 else 1 + 3 * 10)


def test_the_noise_is_that_of_train():
    rows, labels = table()
    run = run_of(steps=20)
    whole = train(run, Logistic(), rows, labels, generator=SecureGenerator(insecure_seed=3), dtype="float64").weights
    found = train_stream(run, Logistic(), Source(rows, labels), generator=SecureGenerator(insecure_seed=3)).weights
    np.testing.assert_array_equal(found, whole)
    iterates = train_stream(run, Logistic(), Source(rows, labels), rows=200, keep_iterates=True).iterates
    assert iterates.shape == (21, D)


def test_every_record_is_used_once_an_epoch():
    """Records of gradient 1 in one direction each, without noise: the sum of an epoch's steps has each of them once."""
    rows, labels = np.eye(D)[np.arange(N) % D], np.ones(N)
    run = run_of(steps=20, step_size=1.0)
    small = train_stream(run.replace(step_size=1e-9), Logistic(), Source(rows, labels), rows=150, generator=Quiet()).weights
    counts = np.bincount(np.arange(N) % D)
    np.testing.assert_allclose(small, 1e-9 * counts / 50 / 2, rtol=1e-6)


def test_what_has_no_stream_and_what_is_no_stream():
    rows, labels = table()
    with pytest.raises(InputError, match=r"expected random-allocation\. Use dplateau\.training\.train_one_pass"):
        train_stream(run_of(sampling=dp.OnePass(50), steps=20), Logistic(), Source(rows, labels))
    with pytest.raises(InputError, match=r"Use dplateau\.training\.train\."):
        train_stream(run_of(sampling=dp.Poisson(50)), Logistic(), Source(rows, labels))
    with pytest.raises(InputError, match="rows"):
        train_stream(run_of(), Logistic(), Source(rows, labels), rows=0)
    once = iter([(rows, labels)])
    with pytest.raises(InputError, match="there are no records"):
        train_stream(run_of(), Logistic(), lambda: once)
    for n, says in ((N - 1, "more records than"), (N + 1, "the run has n = 1,001")):
        with pytest.raises(InputError, match=says):
            train_stream(run_of(n=n), Logistic(), Source(rows, labels))
    with pytest.raises(InputError, match="there are no records"):
        train_stream(run_of(), Logistic(), list)


@pytest.mark.parametrize("spoilt", ["order", "target", "width", "type", "nan"])
def test_readings_that_differ_release_nothing(spoilt):
    rows, labels = table()
    source = Source(rows, labels)

    def read():
        if source.readings >= 2:
            if spoilt == "order":
                source.rows, source.labels = rows[::-1], labels[::-1]
            elif spoilt == "target":
                source.labels = np.where(np.arange(N) == 500, 1 - labels, labels)
            elif spoilt == "width":
                source.rows = rows[:, :-1]
            elif spoilt == "type":
                source.rows = rows.astype(np.float32)
        if spoilt == "nan":
            source.rows = np.where(np.arange(N)[:, None] == 7, np.nan, rows)
        return source()

    says = {
        "width": "expected the same records every time",
        "type": "of type float32",
        "nan": "among the records some have features that are not finite",
    }
    with pytest.raises(InputError, match=says.get(spoilt, "two readings of the records differ")) as raised:
        train_stream(run_of(), Logistic(), read, rows=300)
    assert "Nothing was released" in str(raised.value)


def test_an_interrupted_reading_releases_nothing_and_closes_its_source():
    rows, labels = table()
    source, closed = Source(rows, labels), []

    def read():
        def blocks():
            try:
                for number, block in enumerate(source()):
                    if source.readings == 3 and number == 2:
                        raise KeyboardInterrupt
                    yield block
            finally:
                closed.append(source.readings)

        return blocks()

    with pytest.raises(TrainingInterrupted):
        train_stream(run_of(), Logistic(), read, rows=300)
    assert sorted(set(closed)) == [1, 2, 3]


def test_as_many_steps_are_made_as_the_run_says():
    """Also where they end within an epoch, of 20 batches here."""
    result = train_stream(run_of(steps=27), Logistic(), Source(*table()), rows=300, keep_iterates=True)
    assert len(result.iterates) == 27 + 1


def test_progress_counts_records():
    rows, labels = table()
    told = []
    train_stream(run_of(), Logistic(), Source(rows, labels), rows=300, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 3 * N)
    assert told[-1] == (3 * N, 3 * N)
    assert all(a[0] <= b[0] for a, b in pairwise(told))
    # How many records the batches had is private: it would tell who was in them.
    again = []
    train_stream(run_of(), Logistic(), Source(rows, labels), rows=300, progress=lambda done, total: again.append((done, total)))
    assert again == told
