"""Time and memory of one private step of a network: dplateau against Opacus, side by side.

    python benchmarks/network_step.py [--repeats 7]

Adult's network (123-16-2, n = 29,305) and MNIST's of the TensorFlow Privacy tutorial (two convolutions, 26,010 weights,
n = 60,000), Poisson batches of 256 expected records, synthetic rows, both with as many threads as there are processors. Times are
of whole training runs after a warm-up (compilation, first batches): sampling, noise and transfers included, start-up excluded.
Repeats alternate, so that a busy machine slows both. Opacus is timed with each of its ways to get per-example gradients that
runs, and compared by the fastest. Memory is the peak of a process of its own that trains a few steps, less that of one that only
imports and holds the rows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import about, alternate, median_ratio, peer, table

BATCH, NOISE, CLIP, STEP_SIZE = 256, 1.1, 1.0, 0.15
MODES = ("hooks", "functorch", "ew", "ghost")


class Setting(NamedTuple):
    """Number of rows, their shape, and steps of a repeat: more of ours, as each repeat of ours checks and moves all rows."""

    n: int
    shape: tuple[int, ...]
    classes: int
    steps: int
    peer_steps: int


SETTINGS = {"mlp": Setting(29_305, (123,), 2, 4_000, 400), "cnn": Setting(60_000, (28, 28, 1), 10, 400, 40)}


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Synthetic rows and classes."""
    setting, rng = SETTINGS[name], np.random.default_rng(0)
    rows = rng.random((setting.n, *setting.shape), dtype=np.float32)
    return rows, rng.integers(0, setting.classes, setting.n).astype(np.int32)


def ours(name: str, steps: int) -> Callable[[], object]:
    """A function that trains for ``steps`` steps."""
    import jax

    from dplateau.networks import noisy_sgd, train_network
    from dplateau.spec import Poisson, Run
    from dplateau_papers import networks

    network = networks.adult_mlp(outputs=2) if name == "mlp" else networks.mnist_cnn()
    run = Run(
        n=SETTINGS[name].n,
        sampling=Poisson(BATCH),
        steps=steps,
        noise_multiplier=NOISE,
        clip_norm=CLIP,
        update="post-processed",
    )
    params, loss, optimizer, examples = (
        network.init(jax.random.key(0)),
        networks.cross_entropy(network),
        noisy_sgd(STEP_SIZE),
        data(name),
    )
    return lambda: train_network(run, loss, params, examples, optimizer=optimizer)


def theirs(name: str, steps: int, mode: str) -> Callable[[], object]:
    """The same with Opacus."""
    opacus, torch = import_module("opacus"), import_module("torch")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(os.cpu_count() or 1)
    rows, classes = data(name)
    nn = torch.nn
    if name == "mlp":
        model = nn.Sequential(nn.Linear(123, 16), nn.ReLU(), nn.Linear(16, 2))
    else:
        rows = rows.transpose(0, 3, 1, 2).copy()
        first = [nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)]
        second = [nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1)]
        model = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10))
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(rows), torch.from_numpy(classes.astype(np.int64)))
    loss = nn.CrossEntropyLoss()
    found = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=STEP_SIZE),
        criterion=loss,
        data_loader=torch.utils.data.DataLoader(dataset, batch_size=BATCH),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        poisson_sampling=True,
        grad_sample_mode=mode,
    )
    model, optimizer, loader = found[0], found[1], found[-1]
    if mode == "ghost":  # Gradients are clipped by norms that a loss of Opacus's own finds in a pass before.
        loss = found[2]

    def once() -> None:
        done = 0
        while done < steps:
            for batch, target in loader:
                optimizer.zero_grad()
                loss(model(batch), target).backward()
                optimizer.step()
                done += 1
                if done == steps:
                    break

    return once


def running(make: Callable[[], Callable[[], object]]) -> Callable[[], object] | None:
    """What trains, if it does."""
    try:
        train = make()
        train()
    except (RuntimeError, ValueError, AttributeError, NotImplementedError, TypeError) as error:
        print(f"  left out: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
        return None
    return train


def peak(name: str, who: str, steps: int) -> float:
    """Peak memory in MB of a process that trains for so many steps; 0 steps: one that imports and holds the rows."""
    command = [sys.executable, __file__, "--memory", name, who, str(steps)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def memory(name: str, who: str, steps: int) -> None:
    """Print the peak memory of this process after training."""
    if steps:
        (ours(name, steps) if who == "dplateau" else theirs(name, steps, who))()
    else:
        import_module("dplateau.networks" if who == "dplateau" else "opacus")
        rows = data(name)
        assert len(rows)
    # What a child of a large process reports by getrusage begins with the size of its parent.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(int(status["VmHWM"].split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="alternating repeats of each (default 7)")
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        name, who, steps = options.memory
        memory(name, who, int(steps))
        return
    print(about("jax", "numpy", "opacus", "torch"))
    present, lines = peer("opacus") is not None, []
    for name, setting in SETTINGS.items():
        contestants: dict[str, Callable[[], object]] = {"dplateau": ours(name, setting.steps)}
        for mode in MODES if present else ():
            if (train := running(lambda name=name, steps=setting.peer_steps, mode=mode: theirs(name, steps, mode))) is not None:
                contestants[mode] = train
        times = alternate(contestants, options.repeats, patience=600)
        steps = {who: setting.steps if who == "dplateau" else setting.peer_steps for who in times}
        each: dict[str, Any] = {who: [1e3 * value / steps[who] for value in found] for who, found in times.items()}
        best = min((who for who in each if who != "dplateau"), key=lambda who: statistics.median(each[who]), default=None)
        for who, found in each.items():
            base, full = peak(name, who, 0), peak(name, who, 20)
            ratio = f"{median_ratio(each[best], found):.1f}" if who == "dplateau" and best else ""
            label = who if who == "dplateau" else f"Opacus ({who})"
            lines.append(
                [name, label, f"{statistics.median(found):.2f} ms", f"{min(found):.2f} ms", f"{full - base:.0f} MB", ratio]
            )
    print(table(["network", "", "step, median", "least", "memory", "ratio to the fastest Opacus"], lines))


if __name__ == "__main__":
    main()
