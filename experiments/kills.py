"""Kill a training again and again, let it go on, and compare what was certified with what was spent.

    python experiments/kills.py [--kills 50] [--insecure-seed 1] [--processes 2] [--one-call] [--json]

A small network is trained with a checkpoint every few steps. Its process is killed (SIGKILL) at random moments: half of them while
a checkpoint is being written, which is slowed down for this purpose, the others in any step. Every life goes on from the file that
the last one left; after all kills the training runs to its end. A journal beside it notes every step that was begun and every row
of noise that was drawn, in all lives together. The table shows that the certified steps are at least as many, and what that costs.

With ``--one-call`` the steps between two checkpoints are one compiled call, as they are for small networks by default; otherwise
each step is. With several processes, each life is that of a cluster over loopback, of which one process is killed and the others
end by themselves. A step was begun if it was begun by any of them.

Processes are forked from one that has imported JAX but never used it; each makes its own generator.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dplateau as dp
from dplateau.networks import Checkpoint, Validation, noisy_adam, train_network
from dplateau.networks import checkpoint as saving
from dplateau.networks.slices import LeafSlices
from dplateau.training import Cluster, ProcessLost, SecureGenerator

DELTA = 1e-5
EVERY = 6
FAILED, LOST = 1, 3
N = 60


def planned(kills: int) -> dp.Run:
    """A run that outlives so many kills."""
    return dp.Run(
        n=N, sampling=dp.Poisson(6.0), steps=EVERY * (2 * kills + 4), noise_multiplier=4.0, clip_norm=0.5, update="post-processed"
    )


def loss(params: Any, example: Any) -> Any:
    """The squared error of a network of one layer."""
    x, y = example
    return (jnp.tanh(x @ params["w"] + params["b"]) @ params["v"] - y) ** 2


def problem() -> tuple[Any, Any]:
    """First parameters, and examples."""
    rng = np.random.default_rng(0)
    params = {name: rng.normal(size=shape).astype(np.float32) for name, shape in (("w", (3, 4)), ("b", (4,)), ("v", (4,)))}
    return params, (rng.normal(size=(N, 3)).astype(np.float32), rng.normal(size=N).astype(np.float32))


class Watched(SecureGenerator):
    """A generator that notes how many rows of noise it gave, before it gives them."""

    journal: Callable[[str], None]
    row: int

    def normal_words(self, count: int, memory: Any = None) -> Any:
        for _ in range(max(1, count // self.row)):
            self.journal("rows")
        return super().normal_words(count, memory)


@dataclass(frozen=True)
class Life:
    """One life of the training: its number, and whether it is slow to write."""

    folder: Path
    kills: int
    seed: int | None
    number: int = 0
    slow: bool = False
    processes: int = 1
    one_call: bool = False


def live(life: Life, events: int, port: int, index: int) -> None:
    """What one process does: train to the end, unless somebody kills it."""
    folder, slow = life.folder, life.slow
    cluster = Cluster.connect(f"127.0.0.1:{port}", life.processes, index) if life.processes > 1 else None
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    file = os.open(folder / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def journal(words: str) -> None:
        os.write(file, f"{life.number} {index} {words}\n".encode())

    generator = Watched(insecure_seed=life.seed)
    params, examples = problem()
    numbers = LeafSlices(life.processes, tuple(leaf.shape for leaf in params.values())).total
    generator.journal, generator.row = journal, numbers + numbers % 2  # of noise for a step, drawn in pairs
    renamed = os.replace

    def slowed(old: Any, new: Any) -> None:
        os.write(events, b"w")
        time.sleep(0.01)
        renamed(old, new)
        os.write(events, b"w")
        time.sleep(0.005)

    def progress(step: int, total: int) -> None:
        for k in range(step, min(step + (EVERY if life.one_call else 1), total)):
            journal(f"step {k}")
        if not slow:
            os.write(events, b"s")
            time.sleep(0.001)

    if slow:
        saving.os.replace = slowed  # type: ignore[attr-defined]
    watch = Validation(lambda params: float(-jnp.sum(params["w"] ** 2)), 2 * EVERY, "no data at all", keep_best=False)
    result = train_network(
        planned(life.kills),
        loss,
        params,
        jax.tree.map(lambda column: column[index :: life.processes], examples),
        optimizer=noisy_adam(0.05),
        generator=generator,
        workers=None if life.one_call else 2,
        checkpoint=Checkpoint(folder / "run.ckpt", every=EVERY),
        validation=watch,
        progress=progress,
        cluster=cluster,
    )
    if index:
        return
    (folder / "run.json").write_text(json.dumps(result.run.to_dict()))
    (folder / "scores.json").write_text(json.dumps(result.scores))
    arrays: dict[str, Any] = {name: np.asarray(leaf) for name, leaf in result.params.items()}
    np.savez(folder / "model.npz", **arrays)


def lived(life: Life, until: int | None = None) -> bool:
    """Whether a life came to its end; a process is killed after ``until`` events, and some thousandths of a second."""
    reading, writing = os.pipe()
    port = free_port()
    children = [born(life, writing, port, index) for index in range(life.processes)]
    os.close(writing)
    seen, deadline = 0, time.monotonic() + 120
    while until is None or seen < until:
        if not select.select([reading], [], [], max(0, deadline - time.monotonic()))[0]:
            break
        part = os.read(reading, 1 if until else 4096)
        if not part:
            break  # It is at its end.
        seen += len(part)
    if until is not None:
        time.sleep(random.uniform(0, 0.006))
        os.kill(random.choice(children), signal.SIGKILL)
    os.close(reading)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if FAILED in ends:
        raise RuntimeError((life.folder / "error").read_text())
    return ends[0] == 0


def free_port() -> int:
    """One at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def born(life: Life, events: int, port: int, index: int) -> int:
    """Start a process; its number."""
    child = os.fork()
    if child:
        return child
    status = FAILED
    try:
        if life.processes > 1:  # What libraries say of one another's coming and going.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        live(life, events, port, index)
        status = 0
    except ProcessLost:
        status = LOST
    except BaseException as error:
        (life.folder / "error").write_text(f"{type(error).__name__}: {error}")
    os._exit(status)


def killed(life: Life) -> dict[str, Any]:
    """Train with so many kills; what was certified, and what the journal says was spent."""
    folder, kills = life.folder, life.kills
    done, finished = 0, False
    while done < kills and not finished:
        slow = bool(done % 2)
        most = 3 if slow or life.one_call else 2 * EVERY * life.processes
        finished = lived(replace(life, number=done, slow=slow), random.randint(1, most))
        done += not finished
    number = done
    while not finished:  # At once, unless the machine itself fails.
        finished, number = lived(replace(life, number=number)), number + 1
    planned_run, data = planned(kills), json.loads((folder / "run.json").read_text())
    run = dp.Runs.from_dict(data) if "runs" in data else dp.Run.from_dict(data)
    notes = [line.split() for line in (folder / "journal").read_text().splitlines()]
    begun = Counter(step for _, step in {(number, int(rest[0])) for number, _, kind, *rest in notes if kind == "step"})
    rows = Counter((number, index) for number, index, kind, *_ in notes if kind == "rows")
    with np.load(folder / "run.ckpt") as file:
        lost = json.loads(file["head"].tobytes())["lost"]
    counted = {step: 1 + sum(first <= step < last for first, last in lost) for step in range(planned_run.steps)}
    return {
        "kills": done,
        "steps": planned_run.steps,
        "certified_steps": run.steps,
        "rows_of_noise": sum(max(rows[number, str(k)] for k in range(life.processes)) for number in {one for one, _ in rows}),
        "steps_begun": sum(begun.values()),
        "lost_parts": len(lost),
        "under_counted_steps": sum(begun[step] > counted[step] for step in counted),
        "epsilon_uninterrupted": dp.account(planned_run, DELTA).epsilon,
        "epsilon_certified": dp.account(run, DELTA).epsilon,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--insecure-seed", type=int, help="check that the killed training gives the same model, bit for bit")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--one-call", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        life = Life(folder, options.kills, options.insecure_seed, processes=options.processes, one_call=options.one_call)
        table = killed(life)
        if options.insecure_seed is not None:
            other = folder / "other"
            other.mkdir()
            lived(replace(life, folder=other))
            with np.load(folder / "model.npz") as one, np.load(other / "model.npz") as two:
                same = all((one[leaf] == two[leaf]).all() for leaf in one.files)
            scores = [(where / "scores.json").read_text() for where in (folder, other)]
            table["bit_identical"] = bool(same) and scores[0] == scores[1]
    if options.json:
        print(json.dumps(table))
        return
    for key, value in table.items():
        print(f"{key.replace('_', ' '):<24}{value:.4f}" if isinstance(value, float) else f"{key.replace('_', ' '):<24}{value}")


if __name__ == "__main__":
    main()
