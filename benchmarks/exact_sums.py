"""What exact sums cost: a step of ``train`` against the same step in single precision, where sums depend on their order.

    python benchmarks/exact_sums.py

Both draw the same batches and the same noise from the same generator, clip every example and take plain steps. The other one does
it as one writes it down, in float32: two matrix products, no bound on what one record can do to the sum. Then one pass over 10^6
rows of 100 features, beside scikit-learn's SGD, which is not private. Repeats alternate. Times include encoding, sampling, noise.

Where JAX has an accelerator, both compute there, runs are longer, and there are times of a step without the start of a training,
too: of the difference between such runs and runs of half the length.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from common import about, alternate, median_ratio, peer, row, seconds, table
from dplateau.losses import Logistic, Softmax
from dplateau.losses.base import GeneralisedLinearLoss
from dplateau.spec import FullBatch, OnePass, Poisson, Run, Sampling
from dplateau.training import SecureGenerator, train, train_one_pass
from dplateau.training.batches import batches
from dplateau.training.chunks import rounded_up, stretched
from dplateau.training.exact_products import accelerated

CLIP, STEP_SIZE, NOISE, CHUNK = 0.5, 0.5, 5.0, 512
SETTINGS: tuple[tuple[str, int, int, Sampling, tuple[int, int], GeneralisedLinearLoss], ...] = (
    ("full batch, 32,561 x 170", 32_561, 170, FullBatch(), (200, 2_000), Logistic()),
    ("full batch, 100,000 x 100", 100_000, 100, FullBatch(), (100, 2_000), Logistic()),
    ("full batch, 500,000 x 100", 500_000, 100, FullBatch(), (20, 1_000), Logistic()),
    ("full batch, 60,000 x 100, 10 classes", 60_000, 100, FullBatch(), (30, 1_000), Softmax(10)),
    ("full batch, 60,000 x 784, 10 classes", 60_000, 784, FullBatch(), (5, 600), Softmax(10)),
    ("batches of 256, 100,000 x 100", 100_000, 100, Poisson(256), (4_000, 8_000), Logistic()),
    ("batches of 4,096, 100,000 x 100", 100_000, 100, Poisson(4_096), (400, 2_000), Logistic()),
    ("batches of 32, 10,000 x 20", 10_000, 20, Poisson(32), (8_000, 8_000), Logistic()),
)


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Synthetic rows of norm about 1, and labels of a linear rule."""
    rows = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32) / np.float32(np.sqrt(d))
    return rows, (rows[:, 0] > 0).astype(np.float32)


def residual(loss: GeneralisedLinearLoss, scores: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Derivatives by the scores, and their norms."""
    if isinstance(loss, Softmax):
        found = jax.nn.softmax(scores) - jax.nn.one_hot(target.astype(int), loss.classes)
        return found, jnp.linalg.norm(found, axis=1)
    found = jax.nn.sigmoid(scores) - target
    return found, abs(found)


@partial(jax.jit, static_argnames=("loss", "room", "steps"))
def plain_steps(
    weights: Any,
    rows: jax.Array,
    target: jax.Array,
    norms: jax.Array,
    records: Any,
    starts: Any,
    counts: Any,
    noise: Any,
    scale: Any,
    *,
    steps: int,
    loss: GeneralisedLinearLoss,
    room: int,
) -> jax.Array:
    """Steps in single precision; the compiler knows how many."""

    def body(t: Any, weights: Any) -> jax.Array:
        x, y, norm, used = rows, target, norms, True
        if room:
            batch = jax.lax.dynamic_slice(records, (starts[t],), (room,))
            x, y, norm = (column.at[batch].get(mode="promise_in_bounds") for column in (rows, target, norms))
            used = jnp.arange(room) < counts[t]
        derivative, size = residual(loss, x @ weights, y)
        factor = jnp.where(used, jnp.minimum(1, CLIP / (norm * size)), 0)
        total = ((derivative.T * factor) @ x).T
        return weights - scale * (total + noise[t])

    return jax.lax.fori_loop(0, steps, body, weights)


def plain(run: Run, loss: GeneralisedLinearLoss, rows: np.ndarray, target: np.ndarray) -> None:
    """The run in single precision."""
    generator, d = SecureGenerator(), rows.shape[1]
    shape = (d,) if loss.outputs == 1 else (d, loss.outputs)
    weights, norms = np.zeros(shape, np.float32), np.linalg.norm(rows, axis=1)
    device = [jax.device_put(column) for column in (rows, target, norms)]
    size = run.n if run.is_full_batch else float(run.sampling.batch_size)  # type: ignore[attr-defined]
    room = 0 if run.is_full_batch else rounded_up(int(size + 8 * np.sqrt(size) + 8))
    parts = None if run.is_full_batch else batches(run, CHUNK, generator)
    for begin in range(0, run.steps, CHUNK):
        steps = min(CHUNK, run.steps - begin)
        noise = (NOISE * CLIP * generator.normal((steps, *shape))).astype(np.float32)
        records = starts = counts = np.zeros(1, np.int32)
        if parts is not None:
            part = next(parts)
            counts = stretched(part.counts, CHUNK)
            starts, noise = np.cumsum(counts, dtype=np.int32) - counts, stretched(noise, CHUNK)
            records = stretched(part.records, rounded_up(int(1.2 * CHUNK * size)) + 8 * room)
        scale = np.float32(STEP_SIZE / size)
        weights = plain_steps(weights, *device, records, starts, counts, noise, scale, steps=steps, loss=loss, room=room)
    jax.block_until_ready(weights)


def one_pass(sklearn: object) -> dict[str, Callable[[], object]]:
    """One pass over a million rows: all iterates accounted for, the last one only, and scikit-learn's SGD."""
    n = 1_000_000
    rows, target = data(n, 100)
    run = Run(n=n, sampling=OnePass(1000), steps=1000, noise_multiplier=NOISE, clip_norm=CLIP, step_size=0.03, diameter=4.0)
    last = run.replace(released="last", smoothness=50.0, strong_convexity=0.0)
    found: dict[str, Callable[[], object]] = {
        "all iterates": lambda: train_one_pass(run, Logistic(), [(rows, target)]),
        "last iterate": lambda: train_one_pass(last, Logistic(), [(rows, target)]),
    }
    if sklearn is not None:
        from sklearn.linear_model import SGDClassifier

        found["scikit-learn"] = lambda: SGDClassifier(loss="log_loss", max_iter=1).set_params(tol=None).fit(rows, target)
    return found


def compared(
    loss: GeneralisedLinearLoss, sampling: Sampling, given: tuple[np.ndarray, np.ndarray], steps: int, repeats: int
) -> tuple[list[float], list[float]]:
    """Times of the exact run and of that in single precision."""
    run = Run(n=len(given[0]), sampling=sampling, steps=steps, noise_multiplier=NOISE, clip_norm=CLIP, step_size=STEP_SIZE)
    both = {"exact": partial(train, run, loss, *given), "float32": partial(plain, run, loss, *given)}
    times = alternate(both, repeats, patience=60)
    return times["exact"], times["float32"]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print(about("numpy", "jax", "scikit-learn"))
    if accelerated():
        print(f"accelerator: {jax.local_devices()[0].device_kind}\n")
    ratio, step = "exact / float32", ("a step of exact", "of float32", "ratio")
    print(table(("run", "exact", "float32", ratio, *(step if accelerated() else ())), ()), flush=True)
    for name, n, d, sampling, steps, loss in SETTINGS:
        whole = compared(loss, sampling, data(n, d), steps[accelerated()], repeats)
        cells = [name, *map(seconds, whole), f"{median_ratio(*whole):.2f}"]
        if accelerated():
            half = compared(loss, sampling, data(n, d), steps[1] // 2, repeats)
            each = [(min(a) - min(b)) / (steps[1] - steps[1] // 2) for a, b in zip(whole, half, strict=True)]
            cells += [*(f"{1e3 * one:.3f} ms" for one in each), f"{each[0] / each[1]:.2f}"]
        print(row(cells), flush=True)
    times = alternate(one_pass(peer("sklearn")), repeats, patience=60)
    print()
    print(table(("one pass over 10^6 x 100", "time"), [(name, seconds(found)) for name, found in times.items()]))


if __name__ == "__main__":
    main()
