"""Time and memory of one private step of a network: dplateau against Opacus, and JAX without privacy, side by side.

    python benchmarks/network_step.py [--repeats 5] [--networks adult mlp cnn transformer] [--batches 256 1024 4096]
        [--modes hooks functorch ew ghost] [--microbatches 0 32]

Adult's network (123-16-2, n = 29,305), a wide one (784-256-10, 203,530 weights, n = 60,000), MNIST's of the TensorFlow Privacy
tutorial (two convolutions, 26,010 weights, n = 60,000) and a block of a transformer (an embedding of 3,600 words, four heads,
width 256, 1.7 million weights, n = 25,000 texts of 64 words), Poisson batches of so many expected records, by default 256, 1,024,
4,096, of the transformer 64 and 256; synthetic rows, all with as many threads as there are processors. Times are of whole
training runs after a warm-up (compilation, first batches): sampling, noise and transfers included, start-up excluded. Repeats
alternate, so that a busy machine slows all. Opacus is timed with each of its ways to get per-example gradients that runs, and
compared by the fastest; JAX-Privacy with whole batches (0) and with microbatches. JAX-Privacy and JAX without privacy take as many
rows, drawn with replacement; the latter takes the gradient of their mean loss. Memory is the peak of a process of its own that
trains a few steps; in brackets, that of one that only imports and holds the rows, and the difference; beside the first of the
batches.

Where JAX has an accelerator, everybody computes on it: the rows lie in its memory, and batches are taken there (Opacus is handed
Poisson batches by a loop, as a data loader would take most of its time). Times are until all steps have ended; memory is left out.
Steps in JAX without privacy are timed as calls of their own, and all of them as one compiled call, as ours are there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from common import about, alternate, median_ratio, peer, row, table

NOISE, CLIP, STEP_SIZE = 1.1, 1.0, 0.15
MODES = ("hooks", "functorch", "ew", "ghost")
WITHOUT, IN_ONE = "JAX without privacy", "JAX without privacy, one call"
PRIVACY = "JAX-Privacy"


class Setting(NamedTuple):
    """Number of rows, their shape, and examples of a repeat: more of ours, as each repeat of ours checks all rows."""

    n: int
    shape: tuple[int, ...]
    classes: int
    examples: int
    peer_examples: int

    def steps(self, who: str, batch: int) -> int:
        """Steps of a repeat."""
        others = who in MODES or who.startswith(PRIVACY)
        if accelerated():
            return 40 if others else min(2_000, (self.examples << 8) // batch)
        return max(4, (self.peer_examples if others else self.examples) // batch)


SETTINGS = {
    "adult": Setting(29_305, (123,), 2, 1 << 20, 100_000),
    "mlp": Setting(60_000, (784,), 10, 1 << 17, 4_000),
    "cnn": Setting(60_000, (28, 28, 1), 10, 1 << 16, 10_000),
    "transformer": Setting(25_000, (64,), 2, 1 << 10, 1 << 10),
}
WORDS, WIDTH, HEADS = 3_600, 256, 4
BATCHES = {"transformer": (64, 256)}


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Synthetic rows and classes."""
    setting, rng = SETTINGS[name], np.random.default_rng(0)
    if name == "transformer":
        rows = rng.integers(0, WORDS, (setting.n, *setting.shape), np.int32)
    else:
        rows = rng.random((setting.n, *setting.shape), dtype=np.float32)
    return rows, rng.integers(0, setting.classes, setting.n).astype(np.int32)


def network(name: str) -> tuple[Any, Any]:
    """The first parameters and the loss of one example."""
    import jax
    import jax.numpy as jnp

    from dplateau_papers import networks

    if name == "transformer":
        return transformer_params(), transformer_loss
    if name != "mlp":
        found = networks.adult_mlp(outputs=2) if name == "adult" else networks.mnist_cnn()
        return found.init(jax.random.key(0)), networks.cross_entropy(found)
    rng = np.random.default_rng(0)
    sizes = ((784, 256), (256, 10))
    params = [{"w": jnp.asarray(rng.normal(0, k**-0.5, (k, m)), jnp.float32), "b": jnp.zeros(m)} for k, m in sizes]
    return params, wide_loss


def transformer_params() -> Any:
    """An embedding, projections of the heads, two layers, norms, and a classifier of the mean word."""
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    shapes = {"words": (WORDS, WIDTH), "q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH)}
    shapes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH), "out": (WIDTH, 2)}
    params = {key: jnp.asarray(rng.normal(0, shape[0] ** -0.5, shape), jnp.float32) for key, shape in shapes.items()}
    params |= {f"{key} bias": jnp.zeros(shape[1]) for key, shape in shapes.items() if key != "words"}
    return params | {f"norm {k}": (jnp.ones(WIDTH), jnp.zeros(WIDTH)) for k in (1, 2)}


def transformer_loss(params: Any, example: tuple[Any, Any]) -> Any:
    """Cross-entropy of one text."""
    import jax
    import jax.numpy as jnp

    words, y = example

    def layer(key: str, x: Any) -> Any:
        return x @ params[key] + params[f"{key} bias"]

    def normal(k: int, x: Any) -> Any:
        scale, shift = params[f"norm {k}"]
        x = x - x.mean(-1, keepdims=True)
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale + shift

    x = params["words"][words] * WIDTH**0.5
    h = normal(1, x)
    q, k, v = (layer(key, h).reshape(-1, HEADS, WIDTH // HEADS).swapaxes(0, 1) for key in "qkv")
    mixed = jax.nn.softmax(q @ k.swapaxes(1, 2) * (WIDTH // HEADS) ** -0.5) @ v
    x = x + layer("o", mixed.swapaxes(0, 1).reshape(-1, WIDTH))
    x = x + layer("down", jax.nn.relu(layer("up", normal(2, x))))
    return -jax.nn.log_softmax(layer("out", x.mean(0)))[y]


def torch_transformer(torch: Any) -> Any:
    """The same network, of layers that all ways of Opacus know."""
    nn = torch.nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, WIDTH)
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.up, self.down, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.Linear(WIDTH, 2)
            self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

        def forward(self, words: Any) -> Any:
            x = self.words(words)
            h = self.first(x)
            q, k, v = (one(h).reshape(*h.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2) for one in (self.q, self.k, self.v))
            mixed = torch.softmax(q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5, -1) @ v
            x = x + self.o(mixed.transpose(1, 2).reshape(h.shape))
            x = x + self.down(torch.relu(self.up(self.second(x))))
            return self.out(x.mean(1))

    return Network()


def wide_loss(params: Any, example: tuple[Any, Any]) -> Any:
    """Cross-entropy of one example."""
    import jax

    x, y = example
    first, second = params
    return -jax.nn.log_softmax(jax.nn.relu(x @ first["w"] + first["b"]) @ second["w"] + second["b"])[y]


def accelerated() -> bool:
    """Whether JAX has an accelerator."""
    import jax

    return jax.default_backend() != "cpu"


Step: TypeAlias = Callable[[Any, Any], Any]
"""From the state and the batch, the next state."""


def repeated(name: str, batch: int, steps: int, step: Step, begin: Any, *, in_one: bool = False) -> Callable[[], object]:
    """A function that makes so many compiled steps in JAX, by rows that are drawn with replacement; all of them ``in_one`` call."""
    import jax

    columns = data(name)
    columns = jax.device_put(columns) if accelerated() else columns

    @jax.jit
    def taken(state: Any, columns: Any, index: Any) -> Any:
        return step(state, jax.tree.map(lambda column: column[index], columns))

    @jax.jit
    def looped(state: Any, columns: Any, index: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda k, now: taken(now, columns, index[k]), state)

    compiled = jax.jit(step)

    def one_by_one() -> None:
        rng, now = np.random.default_rng(0), begin
        for _ in range(steps):
            index = rng.integers(0, len(columns[0]), batch)
            now = taken(now, columns, index) if accelerated() else compiled(now, tuple(column[index] for column in columns))
        jax.block_until_ready(now)

    def together() -> None:
        jax.block_until_ready(looped(begin, columns, np.random.default_rng(0).integers(0, len(columns[0]), (steps, batch))))

    return together if in_one else one_by_one


def without_privacy(name: str, batch: int, steps: int, *, in_one: bool = False) -> Callable[[], object]:
    """The same steps on the mean loss of a batch, in JAX."""
    import jax

    begin, loss = network(name)

    def step(params: Any, rows: Any) -> Any:
        gradient = jax.grad(lambda p: jax.vmap(lambda example: loss(p, example))(rows).mean())(params)
        return jax.tree.map(lambda w, g: w - STEP_SIZE * g, params, gradient)

    return repeated(name, batch, steps, step, begin, in_one=in_one)


def jax_privacy(name: str, batch: int, steps: int, microbatch: int) -> Callable[[], object]:
    """The same private steps with JAX-Privacy, in microbatches of so many examples; 0: of the batch."""
    import jax

    theirs, (params, loss) = import_module("jax_privacy"), network(name)
    clipped = theirs.clipped_grad(
        loss, l2_clip_norm=CLIP, keep_batch_dim=False, normalize_by=batch, microbatch_size=microbatch or None
    )
    noise = theirs.noise_addition.gaussian_privatizer(stddev=NOISE * CLIP / batch, prng_key=jax.random.key(0))

    def step(state: Any, rows: Any) -> Any:
        params, noises = state
        mean, noises = noise.update(clipped(params, rows), noises)
        return jax.tree.map(lambda w, g: w - STEP_SIZE * g, params, mean), noises

    return repeated(name, batch, steps, step, (params, noise.init(params)))


def ours(name: str, batch: int, steps: int) -> Callable[[], object]:
    """A function that trains for ``steps`` steps."""
    from dplateau.networks import noisy_sgd, train_network
    from dplateau.spec import Poisson, Run

    run = Run(
        n=SETTINGS[name].n,
        sampling=Poisson(batch),
        steps=steps,
        noise_multiplier=NOISE,
        clip_norm=CLIP,
        update="post-processed",
    )
    (params, loss), optimizer, examples = network(name), noisy_sgd(STEP_SIZE), data(name)
    return lambda: train_network(run, loss, params, examples, optimizer=optimizer)


def theirs(name: str, batch: int, steps: int, mode: str, where: str = "cpu") -> Callable[[], object]:
    """The same with Opacus; JAX is not imported, which would count as Opacus's memory."""
    opacus, torch = import_module("opacus"), import_module("torch")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(os.cpu_count() or 1)
    rows, classes = data(name)
    nn = torch.nn
    if name == "adult":
        model = nn.Sequential(nn.Linear(123, 16), nn.ReLU(), nn.Linear(16, 2))
    elif name == "transformer":
        rows, model = rows.astype(np.int64), torch_transformer(torch)
    elif name == "mlp":
        model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    else:
        rows = rows.transpose(0, 3, 1, 2).copy()
        first = [nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)]
        second = [nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1)]
        model = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10))
    features, target = torch.from_numpy(rows), torch.from_numpy(classes.astype(np.int64))
    model, features, target = model.to(where), features.to(where), target.to(where)
    dataset = torch.utils.data.TensorDataset(features, target)
    loss = nn.CrossEntropyLoss()
    found = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=STEP_SIZE),
        criterion=loss,
        data_loader=torch.utils.data.DataLoader(dataset, batch_size=batch),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        poisson_sampling=True,
        grad_sample_mode=mode,
    )
    model, optimizer, loader = found[0], found[1], found[-1]
    if mode == "ghost":  # Gradients are clipped by norms that a loss of Opacus's own finds in a pass before.
        loss = found[2]

    def batches() -> Iterator[Any]:
        if where == "cpu":
            yield from loader
        else:
            index = torch.nonzero(torch.rand(len(features), device=where) < batch / len(features))[:, 0]
            yield features[index], target[index]

    def once() -> None:
        done = 0
        while done < steps:
            for some, classes in batches():
                optimizer.zero_grad()
                loss(model(some), classes).backward()
                optimizer.step()
                done += 1
                if done == steps:
                    break
        if where != "cpu":
            torch.cuda.synchronize()

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


def room_of(name: str, who: str) -> str:
    """Peak memory of a process that trains, and what it would be without the training."""
    before, after = (peak(name, who, steps) for steps in (0, 20))
    return f"{after:.0f} MB ({before:.0f} + {after - before:.0f})"


def memory(name: str, who: str, steps: int) -> None:
    """Print the peak memory of this process after training."""
    if steps:
        batch = BATCHES.get(name, (256,))[0]
        (ours(name, batch, steps) if who == "dplateau" else theirs(name, batch, steps, who))()
    else:
        import_module("dplateau.networks" if who == "dplateau" else "opacus")
        rows = data(name)
        assert len(rows)
    # What a child of a large process reports by getrusage begins with the size of its parent.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(int(status["VmHWM"].split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="alternating repeats of each (default 5)")
    parser.add_argument("--networks", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--batches", nargs="+", type=int, default=None)
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=MODES, help="Opacus's ways (default: all)")
    parser.add_argument(
        "--microbatches", nargs="*", type=int, default=[0, 32], help="of JAX-Privacy; 0: whole batches (default 0 32)"
    )
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        name, who, steps = options.memory
        memory(name, who, int(steps))
        return
    print(about("jax", "numpy", "opacus", "torch", "jax_privacy"))
    if accelerated():
        import jax

        print(f"accelerator: {jax.local_devices()[0].device_kind}\n")
    print(table(["network", "batch", "", "step, median", "least", "memory", "time, ours = 1"], ()), flush=True)
    for name in options.networks:
        batches = options.batches or BATCHES.get(name, (256, 1024, 4096))
        for batch in batches:
            for line in compared(name, batch, options, first=batch == batches[0]):
                print(row(line), flush=True)


def compared(name: str, batch: int, options: argparse.Namespace, *, first: bool) -> list[list[str]]:
    """The lines of one network and batch."""
    setting, where = SETTINGS[name], "cuda" if accelerated() else "cpu"
    contestants = {
        "dplateau": ours(name, batch, setting.steps("dplateau", batch)),
        WITHOUT: without_privacy(name, batch, setting.steps(WITHOUT, batch)),
    }
    if accelerated():
        contestants[IN_ONE] = without_privacy(name, batch, setting.steps(WITHOUT, batch), in_one=True)
    for size in options.microbatches if options.microbatches and peer("jax_privacy") is not None else ():
        label = f"{PRIVACY} (microbatches of {size})" if size else PRIVACY
        train = running(lambda size=size: jax_privacy(name, batch, setting.steps(PRIVACY, batch), size)) if batch >= size else None
        contestants |= {} if train is None else {label: train}
    for mode in options.modes if options.modes and peer("opacus") is not None else ():
        train = running(lambda mode=mode: theirs(name, batch, setting.steps(mode, batch), mode, where))
        contestants |= {} if train is None else {mode: train}
    each = {
        who: [1e3 * value / setting.steps(who, batch) for value in found]
        for who, found in alternate(contestants, options.repeats, patience=600).items()
    }
    best = min((who for who in each if who in MODES), key=lambda who: statistics.median(each[who]), default=None)
    lines = []
    for who, found in each.items():
        measured = first and (who == "dplateau" or who in MODES) and not accelerated()
        room = room_of(name, who) if measured else ""
        label = f"Opacus ({who})" + ", fastest" * (who == best) if who in MODES else who
        ratio = f"{median_ratio(found, each['dplateau']):.2f}"
        lines.append([name, f"{batch:,}", label, f"{statistics.median(found):.2f} ms", f"{min(found):.2f} ms", room, ratio])
    return lines


if __name__ == "__main__":
    main()
