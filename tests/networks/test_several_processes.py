"""A network on two processes of one machine: the sums of one, noise by slices, batches by parts, one line for what goes wrong."""

import json
import math
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

from dplateau.networks import Checkpoint, train_network
from dplateau.networks.loop import Loop
from dplateau.spec import InputError
from dplateau.spec.assumption import Processes
from dplateau.training import Cluster, SecureGenerator, TrainingInterrupted

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from networks_on_two import FIRST, KINDS, N, Quiet, bits, loss, params, problem, run_of  # noqa: E402

FALSE_ALARM = 1e-9


everywhere = pytest.mark.parametrize("devices", [0, 1, 2], ids=["one call", "calls", "two accelerators each"])
"""In a process: 2, processors that pass for so many accelerators; 1, steps of processors that are calls of their own."""


def answers(what, *arguments, devices=0):
    """What each of two processes answers."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-W", "ignore", str(HERE / "networks_on_two.py"), f"127.0.0.1:{port}"]
    running = [
        subprocess.Popen(
            [*command, str(index), what, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "ACCELERATORS": str(devices // 2 * 2),
                "WORKERS": "2" if devices == 1 else "1",
                "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices or 1}",
            },
        )
        for index in (0, 1)
    ]
    try:
        with ThreadPoolExecutor() as readers:  # a process that cannot write would keep the other one waiting
            said = list(readers.map(lambda one: one.communicate(timeout=240), running))
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


@everywhere
def test_sums_are_those_of_one_process_to_the_bit(devices, monkeypatch):
    found = answers("noiseless", devices=devices)
    assert found[0] == found[1]
    if devices == 2:
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for kind, (fields, options) in KINDS.items():
        with Quiet():
            alone = train_network(run_of(**fields), loss, params(), problem(), microbatch=8, workers=1, **options)
        moved = [abs(np.asarray(alone.params[name]) - np.asarray(params()[name])).max() for name in params()]
        assert all(one > 1e-2 for one, name in zip(moved, params(), strict=True) if kind != "frozen" or name != "b")
        if kind != "adam":  # Compilers round Adam as they please.
            assert found[0][kind] == bits(alone.params), kind
        for pair in zip(found[0][kind], bits(alone.params), strict=True):
            one, other = (np.array(words, np.int32).view(np.float32) for words in pair)
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@everywhere
def test_contributions_that_depend_on_their_place_in_one_process_are_added_up_in_none(devices):
    """Processors call separate functions then, which do not; with threads they do so anyway."""
    first, second = answers("bent", devices=devices)
    assert first == second
    if devices == 2:
        assert "depends on its place" in first[0]
    else:
        assert first[0] == "SharedLoop"
        assert len(first) > 1


@everywhere
def test_sums_beyond_32_bits_are_exact(devices):
    assert answers("slices", devices=devices) == [[True] * 4] * 2


@everywhere
def test_noise_is_drawn_once_for_each_weight_by_the_device_whose_slice_it_is(devices):
    """Of 4,001 weights a device has 2,001 or 1,001. A correlation of 6.5 / sqrt(1,000) = 0.21 would be found."""
    found = answers("noise", devices=devices)
    size, shares = (1000, 4) if devices == 2 else (2000, 2)
    assert found[0]["noise"] == found[1]["noise"]
    noise = np.array(found[0]["noise"]) * 60
    assert noise.shape == (3, 4001)
    parts = [one[k * (size + 1) :][:size] for one in noise for k in range(shares)]
    parts = [part[: min(map(len, parts))] for part in parts]  # the last slice is shorter
    for part in parts:
        assert right_scale(part)
        assert not right_scale(0.8 * part)
        assert not right_scale(1.25 * part)
        assert stats.kstest(part, "norm").pvalue > 1e-6
    # No slice repeats another one, as it stands or turned around, of the same training or of the next.
    for one in (parts, [part[::-1] if k % 2 else part for k, part in enumerate(parts)]):
        assert abs(np.corrcoef(one) - np.eye(len(parts))).max() < 6.5 / math.sqrt(size)
    assert all("processes" in one["names"] for one in found)
    assert all(("ChaCha20" if devices == 2 else "AES") in word for one in found for word in one["words"])
    assert all("operating system" in word for one in found for word in one["words"][:2])
    assert all("seed" in word for one in found for word in one["words"][2:])


@everywhere
def test_parts_of_batches_have_the_law_of_a_batch(devices):
    found = answers("batches", devices=devices)
    assert all(one["last"] == other["last"] for one, other in zip(found[0].values(), found[1].values(), strict=True))
    # Process 0 alone computes scores, and all know how many there are. Its records add 1/2, the others 1/4.
    assert [one["sums"] for one in found[1].values()] == [[]] * 4
    for kind, rate in (("poisson", 30 / N), ("random-allocation", 1 / 7)):
        seen = found[0][kind]
        assert seen["scores"] == len(seen["sums"]) == 210
        sums = np.diff([0.0, *seen["sums"]])
        mean, variance = rate * (FIRST / 2 + (N - FIRST) / 4), rate * (1 - rate) * (FIRST / 4 + (N - FIRST) / 16)
        assert abs(sums.mean() - mean) < 6 * math.sqrt(variance / len(sums))
        assert 0.6 < sums.var() / variance < 1.67
        if kind == "random-allocation":  # every record is in one batch of an epoch of 7
            whole = sums.reshape(-1, 7).sum(axis=1)
            assert whole == pytest.approx(FIRST / 2 + (N - FIRST) / 4, rel=1e-3)
    # Of batches of b records, as many are of process 0 as of b drawn without replacement, if all b are of one epoch.
    for kind, size in (("fixed-size", 30), ("shuffled", 67)):
        own = np.diff([0.0, *found[0][kind]["sums"]]) * 4 - size
        assert abs(own - own.round()).max() < 1e-2
        mean, variance = size * FIRST / N, size * FIRST / N * (1 - FIRST / N) * (N - size) / (N - 1)
        assert abs(own.mean() - mean) < 6 * math.sqrt(variance / len(own))
        assert 0.5 < own.var() / variance < 1.8
        if kind == "shuffled":
            assert own.reshape(-1, 3).sum(axis=1) == pytest.approx(FIRST)


@everywhere
def test_each_process_draws_keys_for_its_own_examples(devices):
    """What both processes get is the mean of 201 normals, one an example."""
    found = answers("keys", devices=devices)
    assert found[0] == found[1]
    assert 0 < abs(found[0]) < 6 / math.sqrt(N)


@everywhere
def test_whatever_does_not_fit_is_said_in_every_process(devices, tmp_path):
    first, second = answers("refusals", tmp_path, devices=devices)
    for name, words in {
        "n": "the processes have 80, 121 rows, 201 in all, but the run has n = 202",
        "run": "process 1 has another run than process 0",
        "loss": "process 1 has another loss",
        "constant": "process 1 has another loss",
        "start": "process 1 has another first iterate",
        "optimizer": "process 1 has another optimizer",
        "frozen": "process 1 has another first iterate",
        "seed": "process 1 has another setting",
        "every": "process 1 has another setting",
        "rows": "two processes have the same rows",
        "not finite": "examples",
        "no labels": "a record of the run is a person: give groups, one label an example",
        "labels of rows": "groups are for persons as examples on several processes",
        "labels of one": "groups are for persons as examples on several processes",
        "too few labels": "groups have shape (3,)",
        "persons": "some person has rows in two processes",
        "one person": "two examples have the same label",
        "seed and checkpoint": "leave out one of the two",
        "no folder": "No such file or directory",
    }.items():
        assert words in first[name], (name, first[name])
        assert words in second[name], (name, second[name])
    assert first["not finite"] == f"process 1: {second['not finite']}"
    assert second["no folder"] == f"process 0: {first['no folder']}"
    assert first["then"] == second["then"] == "nothing"
    assert not list(tmp_path.glob("*")), "nothing was drawn, so there is nothing to keep"


@pytest.mark.parametrize("how", [[], ["--one-call"]], ids=["calls", "one call"])
def test_killed_processes_go_on_and_pay_for_what_was_lost(how):
    """The whole thing with real kills of either process; ``python experiments/kills.py --processes 2`` does it fifty times."""
    command = [sys.executable, str(HERE.parents[1] / "experiments" / "kills.py"), "--json", "--kills", "4", "--processes", "2"]
    done = subprocess.run([*command, *how], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert table["kills"] == 4
    assert table["under_counted_steps"] == 0
    assert table["steps"] <= table["steps_begun"] <= table["rows_of_noise"] <= table["certified_steps"]
    assert table["epsilon_certified"] >= table["epsilon_uninterrupted"]


def test_several_devices_of_one_process_are_refused(process):
    code = """
from networks_on_two import *
try:
    train_network(run_of(step_size=0.1), loss, params(), problem(), cluster=Cluster())
except InputError as error:
    print(error)
"""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    found = process(code=code, env=environment)
    assert found.stdout.startswith("this process has 3 devices that are processors"), found.stderr


def test_a_cluster_of_one_device_changes_no_bit(tmp_path):
    def trained(cluster, name):
        generator, checkpoint = SecureGenerator(insecure_seed=0), Checkpoint(tmp_path / name)
        options = {"generator": generator, "checkpoint": checkpoint, "workers": 1, "cluster": cluster}
        return train_network(run_of(step_size=0.1), loss, params(), problem(), **options)

    found = [trained(None, "alone"), trained(Cluster(), "cluster")]
    assert bits(found[0].params) == bits(found[1].params)
    assert not any(isinstance(one, Processes) for one in found[1].assumptions)


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3), (3, 2), (1, 1)])
def test_a_training_that_goes_on_says_how_many_processes_there_ever_were(tmp_path, monkeypatch, before, after):
    def train(processes, **options):
        monkeypatch.setattr(Loop, "processes", processes)
        options = {"checkpoint": Checkpoint(tmp_path / "run", every=5), **options}
        return train_network(run_of(step_size=0.1, steps=20), loss, params(), problem(), **options)

    def stop(done, _total):
        if done == 10:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted):
        train(before, progress=stop)
    found = [one.count for one in train(after).assumptions if isinstance(one, Processes)]
    assert found == [max(before, after)] * (max(before, after) > 1)


def test_parts_of_the_examples_need_a_cluster():
    with pytest.raises(InputError, match="expected arrays with the run's n = 201 in front"):
        train_network(run_of(step_size=0.1), loss, params(), [column[:FIRST] for column in problem()])
