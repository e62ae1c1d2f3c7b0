"""Kill a training again and again, let it go on, and compare what was certified with what was spent.

    python experiments/kills.py [--kills 50] [--insecure-seed 1] [--json]

A small network is trained with a checkpoint every few steps. Its process is killed (SIGKILL) at random moments: half of them while
a checkpoint is being written, which is slowed down for this purpose, the others in any step. Every life goes on from the file that
the last one left; after all kills the training runs to its end. A journal beside it notes every step that was begun and every row
of noise that was drawn, in all lives together. The table shows that the certified steps are at least as many, and what that costs.

Processes are forked from one that has imported JAX but never used it; each makes its own generator.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dplateau as dp
from dplateau.networks import Checkpoint, Validation, noisy_adam, train_network
from dplateau.networks import checkpoint as saving
from dplateau.training import SecureGenerator

DELTA = 1e-5
EVERY = 6
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

    journal: int = -1

    def normal_words(self, count: int, memory: Any = None) -> Any:
        os.write(self.journal, b"rows 1\n")
        return super().normal_words(count, memory)


def live(folder: Path, kills: int, seed: int | None, events: int, slow: bool) -> None:
    """One life of the training: to its end, unless somebody kills it."""
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    journal = os.open(folder / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    generator = Watched(insecure_seed=seed)
    generator.journal = journal
    replace = os.replace

    def slowed(old: Any, new: Any) -> None:
        os.write(events, b"w")
        time.sleep(0.01)
        replace(old, new)
        os.write(events, b"w")
        time.sleep(0.005)

    def progress(step: int, total: int) -> None:
        if step < total:
            os.write(journal, f"step {step}\n".encode())
        if not slow:
            os.write(events, b"s")
            time.sleep(0.001)

    if slow:
        saving.os.replace = slowed  # type: ignore[attr-defined]
    params, examples = problem()
    watch = Validation(lambda params: float(-jnp.sum(params["w"] ** 2)), 2 * EVERY, "no data at all", keep_best=False)
    result = train_network(
        planned(kills),
        loss,
        params,
        examples,
        optimizer=noisy_adam(0.05),
        generator=generator,
        workers=1,
        checkpoint=Checkpoint(folder / "run.ckpt", every=EVERY),
        validation=watch,
        progress=progress,
    )
    (folder / "run.json").write_text(json.dumps(result.run.to_dict()))
    (folder / "scores.json").write_text(json.dumps(result.scores))
    np.savez(folder / "model.npz", **{name: np.asarray(leaf) for name, leaf in result.params.items()})


def lived(folder: Path, kills: int, seed: int | None, until: int | None, slow: bool) -> bool:
    """Whether a life came to its end; it is killed after ``until`` events, and some thousandths of a second."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            live(folder, kills, seed, writing, slow)
        except BaseException as error:
            (folder / "error").write_text(f"{type(error).__name__}: {error}")
            os._exit(1)
        os._exit(0)
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
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError((folder / "error").read_text())
    return os.WIFEXITED(status)


def killed(folder: Path, kills: int, seed: int | None = None) -> dict[str, Any]:
    """Train with so many kills; what was certified, and what the journal says was spent."""
    done, finished = 0, False
    while done < kills and not finished:
        slow = bool(done % 2)
        finished = lived(folder, kills, seed, random.randint(1, 3 if slow else 2 * EVERY), slow)
        done += not finished
    if not finished:
        lived(folder, kills, seed, None, False)
    planned_run, data = planned(kills), json.loads((folder / "run.json").read_text())
    run = dp.Runs.from_dict(data) if "runs" in data else dp.Run.from_dict(data)
    notes = [line.split() for line in (folder / "journal").read_text().splitlines()]
    begun = Counter(int(number) for kind, number in notes if kind == "step")
    with np.load(folder / "run.ckpt") as file:
        lost = json.loads(file["head"].tobytes())["lost"]
    counted = {step: 1 + sum(first <= step < last for first, last in lost) for step in range(planned_run.steps)}
    return {
        "kills": done,
        "steps": planned_run.steps,
        "certified_steps": run.steps,
        "rows_of_noise": sum(int(number) for kind, number in notes if kind == "rows"),
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
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = killed(folder, options.kills, options.insecure_seed)
        if options.insecure_seed is not None:
            other = folder / "other"
            other.mkdir()
            lived(other, options.kills, options.insecure_seed, None, False)
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
