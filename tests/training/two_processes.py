"""What ``test_cluster.py`` runs in each of two processes: ``python two_processes.py HOST:PORT INDEX WHAT`` prints JSON."""

import faulthandler
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from dplateau.estimators.grid_search import PrivateGridSearch
from dplateau.estimators.logistic_regression import PrivateLogisticRegression
from dplateau.estimators.private_test import planned_test
from dplateau.losses import Logistic, Softmax
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Run, Selection, Shuffled
from dplateau.training import (
    Cluster,
    ProcessLost,
    SecureGenerator,
    records,
    scored,
    select,
    train,
    train_one_pass,
    train_stream,
)
from dplateau.training.cluster import agree_on_code
from dplateau.training.result import assumptions_of, trusted
from dplateau.training.selection import _noisy

N, FIRST, D = 601, 250, 5
UPDATES = {
    "momentum": ({"update": "post-processed"}, {"momentum": 0.5, "average": 0.3}),
    "ball": ({"released": "last", "smoothness": 200.0, "strong_convexity": 0.0, "diameter": 0.05}, {}),
}
LOSSES = {"logistic": Logistic(), "softmax": Softmax(3)}


class Quiet(SecureGenerator):
    """Batches as ever, and no noise."""

    def normal(self, shape):
        return np.zeros(shape)


def problem(n=N, d=D):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.integers(0, 2, n)


def run_of(**changes):
    return Run(
        **{"n": N, "sampling": FullBatch(), "steps": 20, "noise_multiplier": 5.0, "step_size": 0.03, "clip_norm": 9.0, **changes}
    )


def own(cluster, *arrays):
    part = slice(0, FIRST) if cluster.first else slice(FIRST, None)
    return [one[part] for one in arrays]


def noiseless(cluster):
    """The iterates of full batches without noise, in bits."""
    found = {}
    for loss in LOSSES:
        for update, (fields, options) in UPDATES.items():
            data = own(cluster, *problem())
            result = train(run_of(**fields), LOSSES[loss], *data, generator=Quiet(), dtype="float64", cluster=cluster, **options)
            found[f"{loss} {update}"] = result.weights.view(np.int64).tolist()
    return found


def noise(cluster):
    """The iterates of a run on rows of zeros; in process 1 with an entry that tells its rows from the others'."""
    run = run_of(steps=2000, step_size=1.0, noise_multiplier=1.0, n=60, clip_norm=1.0)
    rows = np.zeros((20 if cluster.first else 40, D))
    result = train(run, Logistic(), rows, np.zeros(len(rows)), dtype="float64", keep_iterates=True, cluster=cluster)
    seeds = [SecureGenerator(insecure_seed=3).for_process(index).normal(3).tolist() for index in (cluster.index, cluster.index)]
    return {"noise": np.diff(result.iterates, axis=0).tolist(), "same": seeds[0] == seeds[1], "seeded": seeds[0]}


def batches(cluster):
    """How many records a step uses, times what each adds; without noise. All records are alike, and weights stay near zero."""
    found = {}
    for sampling in (Poisson(30.0), RandomAllocation(100)):
        fields = {"sampling": sampling, "steps": 595, "step_size": 1e-9, "noise_multiplier": 1.0}
        features, target = np.ones((N, 1)), np.zeros(N)
        features[:FIRST] = 2.0  # what process 0 adds is twice as much
        data = own(cluster, features, target)
        result = train(run_of(**fields), Logistic(), *data, generator=Quiet(), dtype="float64", keep_iterates=True, cluster=cluster)
        divisors = np.broadcast_to(sampling.divisors(N), 595)
        found[sampling.kind] = (-np.diff(result.iterates[:, 0]) / 1e-9 * divisors / 0.5).tolist()
    options = {"generator": Quiet(), "keep_iterates": True, "cluster": cluster, "own": len(data[0])}
    result = train_stream(run_of(**fields), Logistic(), lambda: [tuple(data)], rows=250, **options)
    found["stream"] = (-np.diff(result.iterates[:, 0]) / 1e-9 * divisors / 0.5).tolist()
    return found


class QuietSeeded(Quiet):
    """Batches that follow from the number of the process, and no noise."""

    def for_process(self, index):
        return QuietSeeded(insecure_seed=100 + index)


class Both(Quiet):
    """The batches of both such processes."""

    def __init__(self):
        super().__init__(insecure_seed=0)
        self.parts = [self.for_process(index) for index in (0, 1)]
        for one in self.parts:
            one.mark()

    def for_process(self, index):
        return QuietSeeded(insecure_seed=100 + index)

    def integers(self, high, shape):
        assert shape == N
        return np.concatenate([one.integers(high, count) for one, count in zip(self.parts, (FIRST, N - FIRST), strict=True)])


STREAMS = {
    "momentum": ({"update": "post-processed"}, {"momentum": 0.5, "average": 0.3}),
    "ball": UPDATES["ball"],
}


def stream_of(features, target, generator, **options):
    """The released weights of each kind of stream without noise, in bits; blocks of 50 rows, room for about 200."""
    found = {}
    for name, (fields, more) in STREAMS.items():
        run = run_of(sampling=RandomAllocation(100), steps=20, **fields)
        blocks = [(features[i : i + 50], target[i : i + 50]) for i in range(0, len(target), 50)]
        result = train_stream(run, Logistic(), lambda blocks=blocks: blocks, rows=200, generator=generator(), **options, **more)
        found[name] = result.weights.view(np.int64).tolist()
    return found


def in_epochs(cluster):
    """Random allocation of rows that are read several times."""
    features, target = own(cluster, *problem())
    return stream_of(features, target, lambda: QuietSeeded(insecure_seed=0), cluster=cluster, own=len(target))


WHOLE = {
    "cyclic": ({"sampling": Cyclic(50), "n": 600}, {}),
    "shuffled": ({"sampling": Shuffled(50), "n": 600, "update": "post-processed"}, {"momentum": 0.5}),
    "fixed-size": ({"sampling": FixedSize(50), "n": 600, "update": "post-processed"}, {}),
    "last": ({"sampling": Cyclic(50), "n": 600, **UPDATES["ball"][0]}, {}),
    "persons": ({"sampling": FixedSize(20), "n": 120, "unit": "person", "update": "post-processed"}, {}),
}
"""Batches that are drawn, or taken, of all records at once."""


def of_whole_batches(name, cluster=None):
    """The released weights of such a run without noise, in bits; of one process with the draws that two have in common."""
    fields, options = WHOLE[name]
    data, groups = problem(600), None
    first = slice(0, FIRST) if cluster and cluster.first else slice(FIRST if cluster else 0, None)
    if "unit" in fields:
        *data, groups, whose = persons("texts")
        first = slice(None) if cluster is None else whose if cluster.first else ~whose
        groups = groups[first]
    source = QuietSeeded(insecure_seed=0)
    if cluster is None:
        source = source.for_process(0)
        source.mark()
        source = QuietSeeded.of_key(source.key().tobytes(), insecure=True)
    options = {"generator": source, "dtype": "float64", "cluster": cluster, "groups": groups, **options}
    return train(run_of(**fields), Logistic(), *(one[first] for one in data), **options).weights.view(np.int64).tolist()


def whole(cluster):
    return {name: of_whole_batches(name, cluster) for name in WHOLE}


class BothOfPersons(Both):
    """The batches of persons of both such processes."""

    def integers(self, high, shape):
        assert shape == PERSONS
        return np.concatenate([one.integers(high, count) for one, count in zip(self.parts, of_persons(), strict=True)])

    def bernoulli_positions(self, count, rate):
        """Coins of the persons of one process and of the other, in each step."""
        steps, parts = count // PERSONS, []
        for one, own, first in zip(self.parts, of_persons(), (0, of_persons()[0]), strict=True):
            heads = one.bernoulli_positions(own * steps, rate)
            parts.append(heads // own * PERSONS + heads % own + first)
        return np.sort(np.concatenate(parts))


PERSONS = 120
NAMED = {"texts": lambda who: np.array([f"person {one}" for one in who]), "numbers": lambda who: 7 * who - 100}


def persons(kind):
    """Rows of persons, from 1 to 40 a person: those of process 0 have more. Whose each row is, and whether it is process 0's."""
    features, target = problem()
    rng = np.random.default_rng(1)
    who = np.concatenate([np.arange(PERSONS), rng.integers(0, PERSONS, N - PERSONS - 40) ** 2 // PERSONS, np.zeros(40, int)])
    who = np.sort(who)
    return features, target, NAMED[kind](who), who < PERSONS // 3


def of_persons():
    """How many persons each process has."""
    return PERSONS // 3, PERSONS - PERSONS // 3


PERSONS_RUNS = {
    "poisson": ({"sampling": Poisson(20.0), "update": "post-processed"}, {"momentum": 0.5, "average": 0.3}),
    "ball": ({"sampling": RandomAllocation(20), **UPDATES["ball"][0]}, {}),
    "full": ({"update": "post-processed"}, {}),
}


def of_whom(features, target, groups, generator, **options):
    """The released weights of runs on persons without noise, in bits: in memory, and in blocks that cut persons apart."""
    found = {}
    for name, (fields, more) in PERSONS_RUNS.items():
        run = run_of(n=PERSONS, unit="person", **fields)
        data, how = (features, target), {"groups": groups, "dtype": "float64", **options, **more}
        found[name] = train(run, Logistic(), *data, generator=generator(), **how).weights.view(np.int64).tolist()
    blocks = [(features[i : i + 50], target[i : i + 50], groups[i : i + 50]) for i in range(0, len(target), 50)]
    run = run_of(n=PERSONS, unit="person", sampling=RandomAllocation(30), update="post-processed")
    own = {} if "cluster" not in options else {"own": len(np.unique(groups))}
    read = train_stream(run, Logistic(), lambda: blocks, rows=200, generator=generator(), **options, **own)
    return {**found, "stream": read.weights.view(np.int64).tolist()}


def in_persons(cluster):
    """Records are persons: those of process 0 have more rows."""
    found = {}
    for kind in NAMED:
        *data, first = persons(kind)
        data = [one[first if cluster.first else ~first] for one in data]
        found[kind] = of_whom(*data, lambda: QuietSeeded(insecure_seed=0), cluster=cluster)
        run = run_of(n=PERSONS, unit="person", sampling=OnePass(20), steps=6, **UPDATES["ball"][0])
        options = {"generator": Quiet(), "cluster": cluster, "dtype": "float64"}
        features, target, groups = data
        blocks = ((features[i : i + 7], target[i : i + 7], groups[i : i + 7]) for i in range(0, len(target), 7))
        one_pass = train_one_pass(run, Logistic(), blocks, own=of_persons()[cluster.index], **options).weights
        assert (one_pass == train(run, Logistic(), features, target, groups=groups, **options).weights).all()
        found[kind]["one pass"] = one_pass.view(np.int64).tolist()
    records.BLOCK = 6 * D  # steps are made 6 at a time: process 0, with its only person, has none for most of them
    return found | {"few": of_few(cluster)}


FEW = (1, 29)
"""How many persons each process has."""


def of_few(cluster=None):
    """The weights of one pass over as many persons, without noise, in bits; one process takes process 0's between the others."""
    features, target, groups = (one[:90] for one in (*problem(), np.repeat(np.arange(30), 3)))
    if cluster is None:
        rows = np.concatenate([np.arange(3, 45), np.arange(3), np.arange(45, 90)])
    else:
        rows = np.arange(3) if cluster.first else np.arange(3, 90)
    run = run_of(n=30, unit="person", sampling=OnePass(1), steps=30, update="post-processed")
    options = {"generator": Quiet(), "cluster": cluster, "own": cluster and FEW[cluster.index]}
    made = train_one_pass(run, Logistic(), [(features[rows], target[rows], groups[rows])], **options)
    return made.weights.view(np.int64).tolist()


ONE_PASS = {
    "equal": ({"sampling": OnePass(12), "steps": 50}, {}),
    "some left over": ({"sampling": OnePass(14), "steps": 40, "update": "post-processed"}, {"momentum": 0.5, "average": 0.5}),
    "growing": ({"sampling": OnePass((1, 5, 60, 500)), "steps": 4}, {}),
    "last": ({"sampling": OnePass(12), "steps": 50, **UPDATES["ball"][0]}, {}),
}


HELD = (300, 217, 2)
"""How many of 600 rows process 0 has."""


def in_passes(cluster):
    """The released weights of one pass without noise, in bits: process 0 has the first rows, in blocks of 7."""
    features, target = problem(600)
    found = {}
    for first in HELD:
        rows, labels = (one[:first] if cluster.first else one[first:] for one in (features, target))
        for name, (fields, options) in ONE_PASS.items():
            blocks = ((rows[i : i + 7], labels[i : i + 7]) for i in range(0, len(rows), 7))
            run = run_of(n=600, **fields)
            options = {"generator": Quiet(), "cluster": cluster, **options}
            result = train_one_pass(run, Logistic(), blocks, own=None if first == 300 else len(rows), **options)
            found[f"{first} {name}"] = result.weights.view(np.int64).tolist()
            again = train(run, Logistic(), rows, labels, dtype="float64", **options)
            assert (again.weights == result.weights).all()
    return found


def told(work):
    """What a wrong call says."""
    try:
        work()
    except InputError as error:
        return str(error)
    return "nothing"


def refusals(cluster):
    """What is said, in each process, of whatever does not fit."""
    features, target = own(cluster, *problem())
    second = not cluster.first

    def say(run, x=features, y=target, **options):
        return told(lambda: train(run, Logistic(), x, y, cluster=cluster, **options))

    def read(run, x, y):
        return told(lambda: train_one_pass(run, Logistic(), [(x, y)], cluster=cluster))

    def stream(n, count, differ=False):
        """The same rows in both processes, or own rows that are not the same when they are read again."""
        x, y = problem() if count == N else (features, target)
        readings = iter(range(100))
        run = run_of(n=n, sampling=RandomAllocation(100), update="post-processed")
        read = lambda: [(x + (differ and next(readings) > 1), y)]  # noqa: E731
        return told(lambda: train_stream(run, Logistic(), read, rows=100, cluster=cluster, own=count))

    def whose(groups, sampling, n=PERSONS, **fields):
        """Persons as they are, of whom process 1 has others than it should."""
        x, y, labels, first = persons("texts")
        mine = first if cluster.first else ~first
        labels = groups(labels[mine]) if second else labels[mine]
        run = run_of(n=n, unit="person", steps=4, sampling=sampling, **{"update": "post-processed", **fields})
        if not sampling.allocated:
            return say(run, x[mine], y[mine], groups=labels)
        read = lambda: [(x[mine], y[mine], labels)]  # noqa: E731
        return told(lambda: train_stream(run, Logistic(), read, cluster=cluster, own=of_persons()[cluster.index]))

    def moved(labels):
        """The rows of the own first person as those of one of process 0."""
        return np.where(labels == labels[0], "person 3", labels)

    numbered = lambda labels: np.unique(labels, return_inverse=True)[1]  # noqa: E731
    schemes = {"memory": Poisson(20.0), "pass": OnePass(30), "epochs": RandomAllocation(30)}
    bad = features.copy()
    bad[0, 0] = np.nan
    same = problem()
    return {
        "n": say(run_of(n=N + 1)),
        "step size": say(run_of(step_size=0.02 if second else 0.03)),
        "l2": say(run_of(), l2=0.5 if second else 0.0),
        "loss": told(lambda: train(run_of(), Logistic() if second else Softmax(2), features, target, cluster=cluster)),
        "seed": say(run_of(), generator=SecureGenerator(insecure_seed=1) if second else None),
        "not finite": say(run_of(), bad if second else features),
        "width": say(run_of(), features[:, :3] if second else features),
        "same rows": told(lambda: train(run_of(n=2 * N), Logistic(), *same, cluster=cluster)),
        "odd": read(run_of(sampling=OnePass(10), steps=60), features, target),
        "too few": say(run_of(n=N - 1, sampling=OnePass(300), steps=2), features[:240], target[:240]),
        "ends early": read(run_of(n=N - 1, sampling=OnePass(300), steps=2), features[:240], target[:240]),
        "stream": stream(2 * N, N),
        "readings": stream(N, len(target), differ=second),
        "infinite": say(run_of(n=400, sampling=OnePass(100), steps=4), bad[:200] if second else features[:200], target[:200]),
        "groups": say(run_of(), groups=np.arange(len(target)) if second else None),
        "groups of one pass": say(run_of(n=600, sampling=OnePass(10), steps=60), groups=np.arange(len(target)) if second else None),
        "ragged": say(run_of(n=600, sampling=OnePass(10), steps=60), y=np.ones((len(target), 2)) if second else target),
        **{f"two persons in {name}": whose(moved, sampling) for name, sampling in schemes.items()},
        **{f"types in {name}": whose(numbered, sampling) for name, sampling in schemes.items()},
        **{f"more persons in {name}": whose(lambda x: x, one, n=150) for name, one in schemes.items() if name != "epochs"},
        "no groups": say(run_of(unit="person")),
        "no label": whose(lambda labels: np.where(labels == labels[0], None, labels), FullBatch()),
        "many rows": many_rows(cluster),
        "another n": say(run_of(n=N - second)),
        "another call": say(run_of(n=600, sampling=OnePass(10), steps=60)) if second else say(run_of()),
        "a ledger there": say(run_of(), ledger=Refusing() if second else None),
        "code": told(lambda: agree_on_code(Other(cluster.mesh) if second else cluster)),
        "ledger": say(run_of(), ledger=None if second else Refusing()),
        "then": told(lambda: train(run_of(), Logistic(), features, target, cluster=cluster)),
    }


def many_rows(cluster):
    """Process 1 has a person with more rows than a bound on the last iterate allows for."""
    count = 1 if cluster.first else 1025
    run = run_of(n=2, unit="person", **UPDATES["ball"][0])
    groups = np.full(count, cluster.index)
    return told(
        lambda: train(run, Logistic(), np.ones((count, 2)), np.zeros(count), groups=groups, dtype="float64", cluster=cluster)
    )


def hold_out(cluster=None):
    """A test of rows that are held out: which they are, and the noisy histogram, in which each process fills a cell of its own."""
    model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1], insecure_seed=4)
    shared = () if cluster is None else (cluster, FIRST if cluster.first else N - FIRST)
    test = planned_test(model, N, 0.3, *shared)
    held, cells = test.split.held, np.zeros((2, 2, 1))
    if cluster is None:
        cells[:, 0, 0] = (held < FIRST).sum(), (held >= FIRST).sum()
    else:
        cells[cluster.index, 0, 0] = len(held)
    counts = test.released(cells, ("a", "b"), "0" * 64, "0" * 64).counts
    return {"held": held.tolist(), "kept": test.split.kept.tolist(), "counts": counts.tolist()}


SEARCHED = [run_of(step_size=size, update="post-processed") for size in (1e-5, 0.03, 1.0)]
"""Candidates, of which the one in the middle has the best score."""


def chosen(features, target, cluster=None, public=None, **more):
    """The best of three models, with scores of the own records, or of none; all are tried, and nothing is noisy."""
    selection = Selection(SEARCHED if public else [scored(run, 20.0) for run in SEARCHED], 1.0)
    shared = {} if cluster is None else {"cluster": cluster}
    rests = [(*assumptions_of(run, Logistic(), Quiet()), *trusted(2 if shared else 1)) for run in SEARCHED]

    def trained(run):
        return train(run, Logistic(), features, target, generator=Quiet(), dtype="float64", **shared)

    def right(result):
        return (features @ result.weights > 0) == target

    score = (lambda result: public - abs(result.weights).max()) if public else right
    options = {"assumptions": rests, "generator": Quiet(), "public": "nothing" if public else None, **shared, **more}
    found = select(selection, [trained] * 3, score, **options)
    return {"index": found.index, "score": found.score, "weights": found.weights.view(np.int64).tolist()}


def searches(cluster):
    """What is chosen without noise; how often which of two is, by coins, and the noise of a score; a search within epsilon."""
    features, target = own(cluster, *problem())
    result = train(SEARCHED[1], Logistic(), features, target, cluster=cluster, generator=Quiet())
    coins, trained = Selection(SEARCHED[:2], 0.5), [lambda _, k=k: replace(result, run=SEARCHED[k]) for k in (0, 1)]
    how = {"public": "nothing", "assumptions": [result.assumptions] * 2, "cluster": cluster}
    tossed = [select(coins, trained, lambda one: one.run.step_size, **how).index for _ in range(200)]
    noisy = [_noisy(lambda: np.full(len(target), 0.5), N, 7.0, SecureGenerator(), cluster) * N - N / 2 for _ in range(400)]
    model = PrivateLogisticRegression(classes=[0, 1])
    search = PrivateGridSearch(model, {"max_iter": [10, 20]}, epsilon=2.0, delta=1e-5, probability=1.0)
    search.fit(features, target, cluster=cluster)
    x, y, groups, first = persons("texts")
    mine = first if cluster.first else ~first
    of = PrivateGridSearch(model, {"max_iter": [10, 20]}, epsilon=2.0, delta=1e-5)
    of.fit(x[mine], y[mine], groups[mine], cluster=cluster)
    return {
        "private": chosen(features, target, cluster),
        "public": chosen(features, target, cluster, public=2.0 if cluster.first else 3.0),  # only that of process 0 counts
        "tossed": tossed,
        "noise": noisy,
        "model": search.best_estimator_.coef_.tolist(),
        "score": search.best_score_,
        "certificate": search.certificate_.to_json(),
        "persons": of.certificate_.to_json(),
    }


def elsewhere(cluster):
    """What is said, in each process, where one calls another function, or has an error whose words are none."""
    features, target = own(cluster, *problem())
    second, model = not cluster.first, PrivateLogisticRegression(epsilon=1.0, classes=[0, 1])

    def fails(error):
        if second:
            raise error

    def fit():
        return model.fit(features, target, cluster=cluster)

    return {
        "function": told(fit if second else lambda: train(run_of(), Logistic(), features, target, cluster=cluster)),
        "stream": told(fit if second else lambda: model.fit_stream(Nothing(), cluster=cluster)),
        "facts": told(lambda: cluster.agree({"a": "", "b": ""} if second else {"a": ""})),
        "long": told(lambda: cluster.exchanged(np.zeros(10_000 if second else 1))),
        "type": told(lambda: cluster.exchanged(np.zeros(1, np.int64 if second else np.float64))),
        "bytes": told(lambda: cluster.together(lambda: fails(InputError("no file \udcff")))).encode("utf-8", "replace").decode(),
        "no words": told(lambda: cluster.together(lambda: fails(InputError("")))),
        "name": told(lambda: cluster.agree({"column": "\udcff"})),
        "x64": with_setting("jax_enable_x64", second, lambda: told(lambda: agree_on_code(cluster))),
        "then": told(lambda: train(run_of(), Logistic(), features, target, cluster=cluster)),
    }


def with_setting(name, value, work):
    """What ``work`` returns with a setting of JAX."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        return work()
    finally:
        jax.config.update(name, before)


class Nothing:
    """The facts of a stream that is not read."""

    unit, d, n, blocks = "row", D, N, ()


def searched_wrongly(cluster):
    """What is said, in each process, of a search that does not fit."""
    features, target = own(cluster, *problem())
    second = not cluster.first

    def search(grid=(10, 20), ledger=None, y=target, **options):
        model = PrivateLogisticRegression(classes=[0, 1])
        made = PrivateGridSearch(model, {"max_iter": list(grid)}, **{"epsilon": 1.0, "delta": 1e-5, "ledger": ledger, **options})
        return told(lambda: made.fit(features, y, cluster=cluster))

    return {
        "grid": search((10, 30 if second else 20)),
        "epsilon": search(epsilon=2.0 if second else 1.0),
        "classes": search(y=target + second),
        "ledger": search(ledger=None if second else Refusing()),
        "ledger there": search(ledger=Refusing() if second else None),
        "solver": told(
            lambda: PrivateGridSearch(
                PrivateLogisticRegression(classes=[0, 1]), {"solver": ["snowball-sgd"]}, epsilon=1.0, delta=1e-5
            ).fit(features, target, cluster=cluster)
        ),
        "scores": told(lambda: chosen_by(cluster, lambda _: np.ones(N if second else 10))),
        "no score": told(lambda: chosen_by(cluster, lambda _: np.ones((2, 2) if second else 10))),
        "then": told(lambda: chosen(features, target, cluster)),
    }


def chosen_by(cluster, score):
    """A selection with such scores."""
    features, target = own(cluster, *problem())
    selection = Selection([scored(run, 20.0) for run in SEARCHED], 1.0)
    rests = [(*assumptions_of(run, Logistic(), Quiet()), *trusted(2)) for run in SEARCHED]
    trained = lambda run: train(run, Logistic(), features, target, generator=Quiet(), cluster=cluster)  # noqa: E731
    return select(selection, [trained] * 3, score, assumptions=rests, generator=Quiet(), cluster=cluster)


class Other(Cluster):
    """A process with other code."""

    def agree(self, facts):
        super().agree({name: f"{text}, changed" for name, text in facts.items()})


class Refusing:
    def reserve(self, run, **_):
        raise InputError("the budget does not cover it.")


def policies(_):
    """How the kernel takes turns between threads: the one that connected, and the others."""
    threads = [int(name) for name in os.listdir("/proc/self/task")]
    others = sorted({os.sched_getscheduler(one) for one in threads if one != os.getpid()})
    return {"own": os.sched_getscheduler(0), "others": others}


def lost(cluster):
    """Train for ever; the other one is killed."""
    Path(sys.argv[4]).write_text("started")
    try:
        train(run_of(steps=10**7), Logistic(), *own(cluster, *problem()), cluster=cluster)
    except ProcessLost as error:
        print(json.dumps(str(error)), flush=True)
        os._exit(3)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(300, exit=True)  # no process outlives its test for long
    joined = Cluster.connect(sys.argv[1], 2, int(sys.argv[2]))
    answer = globals()[sys.argv[3]](joined)
    print(json.dumps(answer), flush=True)
    joined.close()
