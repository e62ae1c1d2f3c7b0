"""Two processes on one machine: the sums of one, noise by slices, batches by parts, and one clear line for what goes wrong."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from scipy import stats

from dplateau.certificate import Certificate, verify
from dplateau.spec import InputError, OnePass
from dplateau.training import Cluster, SecureGenerator, train
from dplateau.training.cluster import _patient_threads
from dplateau.training.shares import shares

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from two_processes import (  # noqa: E402
    FIRST,
    HELD,
    LOSSES,
    NAMED,
    ONE_PASS,
    PERSONS,
    UPDATES,
    WHOLE,
    Both,
    BothOfPersons,
    N,
    Quiet,
    chosen,
    hold_out,
    of_few,
    of_persons,
    of_whole_batches,
    of_whom,
    persons,
    problem,
    run_of,
    stream_of,
)

FALSE_ALARM = 1e-9


def started(what, *arguments, count=2):
    """Processes 0, 1, ... that do ``what``, connected over a free port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-W", "ignore", str(HERE / "two_processes.py"), f"127.0.0.1:{port}"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen([*command, str(index), what, *map(str, arguments)], **pipes) for index in range(count)]


def answers(what):
    """What each of two processes answers."""
    running = started(what)
    try:
        with ThreadPoolExecutor() as readers:  # a process that cannot write would keep the other one waiting
            said = list(readers.map(lambda one: one.communicate(timeout=180), running))
    finally:
        for one in running:
            one.kill()
    for one, (_, error) in zip(running, said, strict=True):
        assert one.returncode == 0, error
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


def right_scale(noise):
    """Two-sided chi-square test that the noise has unit variance."""
    tail = stats.chi2(noise.size).cdf(np.sum(noise**2))
    return 2 * min(tail, 1 - tail) > FALSE_ALARM


def test_sums_are_those_of_one_process_to_the_bit():
    found = answers("noiseless")
    assert found[0] == found[1]
    for loss in LOSSES:
        for update, (fields, options) in UPDATES.items():
            alone = train(run_of(**fields), LOSSES[loss], *problem(), generator=Quiet(), dtype="float64", **options)
            assert abs(alone.weights).max() > 1e-4
            assert found[0][f"{loss} {update}"] == alone.weights.view(np.int64).tolist(), (loss, update)


def in_one_order(held):
    """Numbers of all records, those of each process spread evenly over the pass."""
    starts = np.concatenate([[0], np.cumsum(held)])
    places = [(Fraction(2 * i + 1, 2 * n), p, int(starts[p]) + i) for p, n in enumerate(held) for i in range(n)]
    return [number for _, _, number in sorted(places)]


def test_one_pass_takes_parts_of_every_batch_and_has_the_sums_of_one_process():
    """Batches are the next records in an order that public counts determine; within a batch the order does not matter."""
    found = answers("in_passes")
    assert found[0] == found[1]
    features, target = problem(600)
    for first in HELD:
        order = in_one_order([first, 600 - first])
        for name, (fields, options) in ONE_PASS.items():
            run = run_of(n=600, **fields)
            alone = train(run, LOSSES["logistic"], features[order], target[order], generator=Quiet(), dtype="float64", **options)
            assert abs(alone.weights).max() > 1e-4
            assert found[0][f"{first} {name}"] == alone.weights.view(np.int64).tolist(), (first, name)


def test_streams_that_are_read_again_have_the_sums_of_one_process():
    """Each process draws the batches of its rows: one process that draws the same has the same weights to the bit."""
    found = answers("in_epochs")
    alone = stream_of(*problem(), Both)
    assert found[0] == found[1] == alone
    assert len({str(one) for one in alone.values()}) == len(alone)


def test_persons_of_two_processes_have_the_sums_of_one():
    """Also where those of one process have several times as many rows, and blocks cut persons apart."""
    found = answers("in_persons")
    assert found[0] == found[1]
    for kind in NAMED:
        features, target, groups, _ = persons(kind)
        alone = of_whom(features, target, groups, BothOfPersons)
        order = in_one_order(of_persons())
        run = run_of(n=PERSONS, unit="person", sampling=OnePass(20), steps=6, **UPDATES["ball"][0])
        names = list(dict.fromkeys(groups.tolist()))
        rows = np.concatenate([np.flatnonzero(groups == names[one]) for one in order])
        options = {"generator": Quiet(), "dtype": "float64", "groups": groups[rows]}
        alone["one pass"] = train(run, LOSSES["logistic"], features[rows], target[rows], **options).weights.view(np.int64).tolist()
        assert found[0][kind] == alone
        assert len({str(one) for one in alone.values()}) == len(alone)
    assert found[0]["few"] == of_few()


def test_batches_of_all_records_are_those_of_one_process():
    """Of a fixed size, cyclic and shuffled: both take the own parts of batches that one key of process 0 draws."""
    found = answers("whole")
    assert found[0] == found[1] == {name: of_whole_batches(name) for name in WHOLE}
    assert len({str(one) for one in found[0].values()}) == len(WHOLE)


@pytest.mark.parametrize("seed", range(20))
def test_shares_of_one_pass_are_those_of_the_order(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        held = rng.integers(1, rng.integers(2, 60), rng.integers(1, 7))
        owner = np.repeat(np.arange(len(held)), held)[in_one_order(held.tolist())]
        wanted = [[np.count_nonzero(owner[:taken] == place) for taken in range(len(owner) + 1)] for place in range(len(held))]
        assert shares(held, np.arange(len(owner) + 1)).tolist() == wanted


def test_shares_of_more_records_than_64_bits_can_multiply():
    held, taken = np.array([10**10, 1, 3 * 10**10]), np.array([0, 10**10, 4 * 10**10 + 1])
    found = shares(held, taken)
    assert found.sum(axis=0).tolist() == taken.tolist()
    assert found[:, -1].tolist() == held.tolist()
    assert abs(found[0, 1] - 10**10 / 4) < 2


def test_noise_is_drawn_once_for_each_weight_by_the_process_whose_slice_it_is():
    """5 weights: process 0 draws for the first 3. A correlation of 6.5 / sqrt(2,000) = 0.15 between any two would be found."""
    found = answers("noise")
    assert found[0]["noise"] == found[1]["noise"]
    noise = np.array(found[0]["noise"]) * 60
    steps = len(noise)
    assert all(right_scale(weight) for weight in noise.T)
    for own in (noise[:, :3], noise[:, 3:]):
        assert not right_scale(0.9 * own)
        assert not right_scale(1.1 * own)
    seen = np.corrcoef(np.hstack([noise[:-1], noise[1:]]), rowvar=False)
    assert abs(seen - np.eye(len(seen))).max() < 6.5 / math.sqrt(steps)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-6
    # One seed in both processes gives each another stream, the same one every time.
    assert [one["same"] for one in found] == [True, True]
    assert found[0]["seeded"] != found[1]["seeded"]


def test_parts_of_batches_have_the_law_of_a_batch():
    found = answers("batches")
    assert found[0] == found[1]
    parts = np.array([FIRST, N - FIRST])
    # Records of process 0 add 2, the others 1. A variance that is a quarter off would be found (595 steps).
    for kind, rate in (("poisson", 30 / N), ("random-allocation", 1 / 7), ("stream", 1 / 7)):
        sums = np.array(found[0][kind])
        assert abs(sums - sums.round()).max() < 1e-2
        mean, variance = rate * (2 * parts[0] + parts[1]), rate * (1 - rate) * (4 * parts[0] + parts[1])
        assert abs(sums.mean() - mean) < 6 * math.sqrt(variance / len(sums))
        if kind != "poisson":  # every record is in one batch of an epoch of 7
            assert np.ptp(sums.reshape(-1, 7).sum(axis=1)) == pytest.approx(0, abs=0.1)
        assert 0.75 < sums.var() / variance < 1.33


def test_whatever_does_not_fit_is_said_in_every_process():
    first, second = answers("refusals")
    for name, words in {
        "n": "the processes have 250, 351 rows, 601 in all, but the run has n = 602",
        "step size": "process 1 has another run than process 0",
        "l2": "process 1 has another setting",
        "loss": "process 1 has another loss",
        "seed": "process 1 has another setting",
        "width": "process 1 has another",
        "odd": "n = 601 is not a multiple of 2 processes: say how many rows each has",
        "too few": "the processes have 240, 240 rows, 480 in all, but the run has n = 600",
        "ends early": "the records end after 240 rows but 300 were declared for this process",
        "infinite": "some records have features that are not finite numbers",
        "code": "process 1 has another version of dplateau, or of a library",
        "same rows": "two processes have the same rows",
        "stream": "two processes have the same rows",
        "readings": "two readings of the records differ",
        "groups": "groups are given, and a record of the run is a row",
        "groups of one pass": "groups are given, and a record of the run is a row",
        **{f"two persons in {name}": "some person has rows in two processes" for name in ("memory", "pass", "epochs")},
        **{f"types in {name}": "process 1 has another type of groups" for name in ("memory", "pass", "epochs")},
        **{f"more persons in {name}": "the processes have 40, 80 persons, 120 in all" for name in ("memory", "pass")},
        "no groups": "a record of the run is a person: give groups",
        "no label": "rows have no label in groups",
        "many rows": "some person has more than 1,024 rows",
        "ragged": "target has shape (351, 2): expected one entry for each of the 351 rows",
        "another n": "process 1 has another run than process 0",
        "another call": "process 1 has another call than process 0",
        "a ledger there": "process 1 has a ledger and process 0, which charges it, has none",
        "ledger": "the budget does not cover it",
    }.items():
        assert words in first[name], name
        assert words in second[name], name
    assert "not finite numbers" in second["not finite"]
    assert first["not finite"] == f"process 1: {second['not finite']}"
    assert second["ledger"].startswith("process 0: ")
    assert first["then"] == second["then"] == "nothing"


def test_a_test_of_rows_of_two_processes_is_that_of_one():
    """The same rows are held out, to the last one, and the noise is drawn once: by process 0, from the same key here."""
    (first, second), alone = answers("hold_out"), hold_out()
    for part in ("held", "kept"):
        assert first[part] + [FIRST + one for one in second[part]] == alone[part]
    assert first["counts"] == second["counts"] == alone["counts"]


def test_a_search_on_two_processes_is_that_of_one():
    """The same model and score, one noise, coins of process 0, and a certificate that names both."""
    found = answers("searches")
    assert found[0] == found[1]
    for public in (None, 2.0):
        alone = chosen(*problem(), public=public)
        assert found[0]["public" if public else "private"] == alone
    assert chosen(*problem())["index"] == 1
    second = sum(found[0]["tossed"])  # the larger score wins where it is tried: 2 of the 3 ways to toss two coins with a head
    assert stats.binomtest(second, 200, 2 / 3).pvalue > FALSE_ALARM
    noise = np.array(found[0]["noise"]) / 7.0
    assert right_scale(noise)
    assert stats.kstest(noise, "norm").pvalue > FALSE_ALARM
    for name, n in (("certificate", N), ("persons", PERSONS)):
        certificate = Certificate.from_json(found[0][name])
        assert certificate.certifies
        assert verify(certificate).agrees
        assert certificate.run.n == n
        assert 1.9 < certificate.epsilon <= 2.0
        assert "the 2 processes that trained" in " ".join(str(certificate).split())


def test_a_search_that_does_not_fit_is_said_in_every_process():
    found = answers("searched_wrongly")
    words = {
        "grid": "another argument", "epsilon": "another argument", "classes": "class", "ledger": "the budget does not cover it",
        "ledger there": "give it to process 0", "solver": "trains on one process", "scores": "611 numbers in all processes",
        "no score": "an array of shape (2, 2)",
    }  # fmt: skip
    for said in found:
        for name, expected in words.items():
            assert expected in said[name], (name, said[name])
        assert said["then"] == "nothing"


@contextmanager
def training_for_ever(mark):
    """Two processes in the middle of a training."""
    running = started("lost", mark)
    try:
        end = time.monotonic() + 120
        while not mark.exists() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(3 + np.random.default_rng().uniform(0, 2))
        assert [one.poll() for one in running] == [None, None]
        yield running
    finally:
        for one in running:
            one.kill()


@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_that_is_killed_ends_the_other(killed, tmp_path):
    with training_for_ever(tmp_path / "started") as running:
        os.kill(running[killed].pid, signal.SIGKILL)
        out, _ = running[1 - killed].communicate(timeout=60)
    # JAX itself may end the process first where its coordinator, process 0, is gone; the command tells that, too.
    code = running[1 - killed].returncode
    assert code in ((3, -signal.SIGABRT) if killed == 0 else (3,))
    if code == 3:
        assert "another process ended, or cannot be reached: nothing was released" in out
    assert "weights" not in out


@pytest.mark.parametrize("paused", [[0, 1], [1]], ids=["both", "one"])
def test_a_pause_of_a_machine_is_survived(paused, tmp_path):
    """A virtual machine that is moved, or saved, stands still for some time."""
    with training_for_ever(tmp_path / "started") as running:
        for blow, wait in ((signal.SIGSTOP, 35), (signal.SIGCONT, 5)):
            for one in paused:
                os.kill(running[one].pid, blow)
            time.sleep(wait)
        assert [one.poll() for one in running] == [None, None]


def test_several_devices_of_one_process(process):
    code = """
from two_processes import *
cluster = Cluster()
alone, shared = (
    train(run_of(), Logistic(), *problem(), generator=Quiet(), dtype="float64", cluster=one) for one in (None, cluster)
)
assert cluster.mesh.size == 3 and (alone.weights == shared.weights).all()
assert "processes" not in {one.name for one in shared.assumptions}
features, target, groups, _ = persons("texts")
for sampling in (FullBatch(), Cyclic(20)):
    run = run_of(n=PERSONS, unit="person", sampling=sampling)
    alone, shared = (
        train(run, Logistic(), features, target, groups=groups, generator=Quiet(), cluster=one) for one in (None, cluster)
    )
    assert (alone.weights == shared.weights).all()
run = run_of(sampling=Poisson(50.0), noise_multiplier=1.0)
print(train(run, Logistic(), *problem(), cluster=cluster).weights.shape)
"""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    found = process(code=code, env=environment)
    assert found.stdout == "(5,)\n", found.stderr


def test_devices_of_one_process_draw_noise_and_batches_of_their_own(process):
    """Of 5 weights they have 2, 2 and 1, of 601 records a third each; the bounds are those of two processes above."""
    code = """
from two_processes import *
cluster, options = Cluster(), {"dtype": "float64", "keep_iterates": True}
run = run_of(n=60, steps=2000, step_size=1.0, noise_multiplier=1.0, clip_norm=1.0)
result = train(run, Logistic(), np.zeros((60, D)), np.zeros(60), cluster=cluster, **options)
noise = np.diff(result.iterates, axis=0) * 60
run = run_of(sampling=Poisson(30.0), steps=600, step_size=1e-9)
result = train(run, Logistic(), np.ones((N, 1)), np.zeros(N), generator=Quiet(), cluster=cluster, **options)
print(json.dumps([noise.tolist(), (np.diff(result.iterates[:, 0]) / -1e-9 * 30 / 0.5).tolist()]))
"""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    found = process(code=code, env=environment)
    noise, sizes = map(np.array, json.loads(found.stdout))
    assert all(right_scale(weight) for weight in noise.T)
    seen = np.corrcoef(np.hstack([noise[:-1], noise[1:]]), rowvar=False)
    assert abs(seen - np.eye(len(seen))).max() < 6.5 / math.sqrt(len(noise))
    assert abs(sizes - sizes.round()).max() < 1e-2
    assert abs(sizes.mean() - 30) < 6 * math.sqrt(30 / len(sizes))
    assert 0.7 < sizes.var() / (30 * (1 - 30 / N)) < 1.4


def test_a_cluster_of_one_device_changes_no_bit():
    seeded = [
        train(run_of(), LOSSES["logistic"], *problem(), generator=SecureGenerator(insecure_seed=0), cluster=cluster).weights
        for cluster in (None, Cluster())
    ]
    assert (seeded[0] == seeded[1]).all()


def policies_can_be_chosen():
    """On Linux, where nobody forbids it."""

    def chosen():
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except (AttributeError, OSError):
            return False
        return os.sched_getscheduler(0) == os.SCHED_BATCH

    with ThreadPoolExecutor(1) as thread:  # whose policy is nobody else's
        return thread.submit(chosen).result()


linux = pytest.mark.skipif(not policies_can_be_chosen(), reason="threads have no policies here")


def policy_of_a_new_thread():
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(os.sched_getscheduler, 0).result()


@linux
def test_threads_that_are_started_while_processes_connect_do_not_interrupt_others(monkeypatch):
    found = answers("policies")
    assert all(one["own"] == os.SCHED_OTHER for one in found)
    assert all(os.SCHED_BATCH in one["others"] for one in found)
    with _patient_threads():
        assert policy_of_a_new_thread() == os.SCHED_BATCH
    with pytest.raises(ZeroDivisionError), _patient_threads():
        1 / 0  # noqa: B018
    assert policy_of_a_new_thread() == os.sched_getscheduler(0) == os.SCHED_OTHER

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with _patient_threads():
        assert policy_of_a_new_thread() == os.SCHED_OTHER
    monkeypatch.setattr(os, "sched_getscheduler", refused)
    with _patient_threads():
        pass


@linux
@pytest.mark.parametrize("policy", ["SCHED_BATCH", "SCHED_IDLE"])
def test_a_policy_that_somebody_chose_is_left_alone(policy, monkeypatch):
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: getattr(os, policy))
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: pytest.fail("it was changed"))
    with _patient_threads():
        pass


def test_generators_with_one_key_are_found():
    marks = [SecureGenerator(insecure_seed=1).for_process(index).mark() for index in (0, 1, 1)]
    assert marks[0] != marks[1]
    assert marks[1] == marks[2]
    assert SecureGenerator().for_process(1).mark() != SecureGenerator().for_process(1).mark()


def test_processes_at_different_places_of_a_program_are_told():
    """Libraries would end them, or hand over memory that nobody wrote."""
    first, second = answers("elsewhere")
    for name in ("function", "stream", "facts", "long", "type"):
        for one in (first, second):
            assert "process 1 is at another place of the program than process 0" in one[name], (name, one)
    assert {"process 1 has another setting of JAX than process 0" in one["x64"] for one in (first, second)} == {True}
    assert (first["bytes"], second["bytes"]) == (r"process 1: no file \udcff", "no file ?")
    assert (first["no words"], second["no words"]) == ("process 1: InputError, see there.", "")
    assert {one[name] for one in (first, second) for name in ("name", "then")} == {"nothing"}


def test_a_device_is_in_a_mesh_once():
    """Twice, it would add its records twice to every sum."""
    (device, *_) = jax.devices()
    assert Cluster(Mesh(np.array([device]), ("records",))).own == 1
    with pytest.raises(InputError, match="or one twice"):
        Cluster(Mesh(np.array([device, device]), ("records",)))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (("nonsense", 2, 0), r"the coordinator is 'nonsense': expected HOST:PORT"),
        ((":5000", 2, 0), r"the coordinator is ':5000': expected HOST:PORT"),
        (("10.0.0.1:99999", 2, 0), r"the coordinator is '10.0.0.1:99999': expected HOST:PORT"),
        (("10.0.0.1:\u0665\u0660\u0660\u0660", 2, 1), r"the coordinator is '10.0.0.1:\d{4}': expected HOST:PORT"),
        (("10.0.0.1:5000", 2, 2), r"process_id is 2: expected a number from 0 to 1, of 2 processes"),
        (("10.0.0.1:5000", 2, -1), r"process_id is -1: expected a whole number >= 0"),
        (("10.0.0.1:5000", 0, 0), r"processes is 0: expected a whole number >= 1"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_anything_is_connected(where, words):
    with pytest.raises(InputError, match=words):
        Cluster.connect(*where)
