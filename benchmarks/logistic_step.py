"""Time of one private logistic regression step: dplateau against Opacus, side by side.

    python benchmarks/logistic_step.py

Both take Poisson batches of 256 from 29,305 rows of 123 features, clip every example to 1 and add noise of multiplier 0.55, on
the CPU. Times are of whole training runs after a warm-up (compilation, first batches): sampling, noise and transfers included,
start-up excluded. Repeats alternate, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from common import about, alternate, median_ratio, peer
from dplateau.losses import Logistic
from dplateau.spec import Poisson, Run
from dplateau.training import train

N, D, BATCH, NOISE, CLIP, STEP_SIZE = 29_305, 123, 256, 0.55, 1.0, 0.5


def data() -> tuple[np.ndarray, np.ndarray]:
    """Synthetic unit rows and noisy labels of a linear rule."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, D)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, (rows @ rng.normal(size=D) + rng.normal(size=N) > 0).astype(np.float32)


def ours(rows: np.ndarray, labels: np.ndarray, steps: int) -> Callable[[], object]:
    """A function that trains for ``steps`` steps."""
    run = Run(n=N, sampling=Poisson(BATCH), steps=steps, noise_multiplier=NOISE, clip_norm=CLIP, step_size=STEP_SIZE)
    return lambda: train(run, Logistic(), rows, labels)


def theirs(opacus: Any, rows: np.ndarray, labels: np.ndarray, steps: int) -> Callable[[], object]:
    """The same with Opacus."""
    torch = import_module("torch")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)  # at this size a second thread never helps, and on a busy machine it costs much
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(rows), torch.from_numpy(labels))
    model = torch.nn.Linear(D, 1)
    model, optimizer, loader = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=STEP_SIZE),
        data_loader=torch.utils.data.DataLoader(dataset, batch_size=BATCH),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        poisson_sampling=True,
    )
    loss = torch.nn.BCEWithLogitsLoss()

    def once() -> None:
        done = 0
        while done < steps:
            for batch, target in loader:
                optimizer.zero_grad()
                loss(model(batch)[:, 0], target).backward()
                optimizer.step()
                done += 1
                if done == steps:
                    break

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="alternating repeats of each (default 7)")
    parser.add_argument("--steps", type=int, default=8192, help="steps of ours in a repeat (default 8192)")
    parser.add_argument("--peer-steps", type=int, default=400, help="steps of Opacus in a repeat (default 400)")
    options = parser.parse_args()
    print(about("jax", "numpy", "opacus", "torch"))
    rows, labels = data()
    contestants = {"dplateau": ours(rows, labels, options.steps)}
    if opacus := peer("opacus"):
        contestants["opacus"] = theirs(opacus, rows, labels, options.peer_steps)
    steps = {"dplateau": options.steps, "opacus": options.peer_steps}
    times = alternate(contestants, options.repeats, patience=60)
    each = {name: [value / steps[name] for value in found] for name, found in times.items()}
    print(f"setting: n={N}, d={D}, Poisson batches of {BATCH}, {options.repeats} repeats")
    for name, found in each.items():
        print(f"{name:>9}: {1e6 * statistics.median(found):9.1f} us a step (from {1e6 * min(found):.1f} to {1e6 * max(found):.1f})")
    if opacus:
        print(f"    ratio: {median_ratio(each['opacus'], each['dplateau']):9.1f} (median of the pairs)")


if __name__ == "__main__":
    main()
