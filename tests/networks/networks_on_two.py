"""What ``test_several_processes.py`` runs in two processes, each ``python networks_on_two.py HOST:PORT INDEX WHAT``.

With a number of ``ACCELERATORS`` in the environment their processors pass for such.
"""

import faulthandler
import json
import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from dplateau.networks import Checkpoint, Validation, adagrad_norm, compiled, train_network
from dplateau.networks import slices as sliced
from dplateau.networks.noise import Noise
from dplateau.networks.shared import SharedLoop
from dplateau.networks.slices import APART, SAME, LeafSlices
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, Poisson, RandomAllocation, Run, Shuffled
from dplateau.training import Cluster, ProcessLost, SecureGenerator

N, FIRST, D, HIDDEN = 201, 80, 5, 7
WORKERS = {"workers": int(os.environ.get("WORKERS", "1"))}
"""With two, steps are calls of their own."""
KINDS = {
    "plain": ({"step_size": 0.3}, {}),
    "cyclic": ({"step_size": 0.3, "sampling": Cyclic(67)}, {}),
    "persons": ({"step_size": 0.2, "unit": "person"}, {}),
    "adam": ({"update": "post-processed"}, {"optimizer": optax.adam(0.01), "average": 0.4}),
    "whole": ({"update": "post-processed"}, {"optimizer": adagrad_norm(0.5, b0_squared=1.0)}),
    "frozen": ({"step_size": 0.3}, {"trainable": {"w": True, "b": False, "v": True}}),
}


def problem():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)).astype(np.float32), rng.integers(0, 2, N).astype(np.float32)


def params(hidden=HIDDEN):
    rng = np.random.default_rng(1)
    made = {"w": rng.normal(size=(D, hidden)) / 2, "b": rng.normal(size=hidden) / 2, "v": rng.normal(size=hidden) / 2}
    return {name: jnp.asarray(leaf, jnp.float32) for name, leaf in made.items()}


def loss(params, example):
    x, y = example
    score = jnp.tanh(x @ params["w"] + params["b"]) @ params["v"]
    return jax.nn.softplus(score) - y * score


def run_of(**changes):
    fields = {"n": N, "sampling": FullBatch(), "steps": 12, "noise_multiplier": 2.0, "clip_norm": 0.5, **changes}
    return Run(**fields)


def own(cluster, examples):
    part = slice(0, FIRST) if cluster.first else slice(FIRST, None)
    return jax.tree.map(lambda one: one[part], examples)


class Quiet:
    """No noise inside."""

    def __enter__(self):
        self.methods = Noise.steps, Noise.rows
        Noise.steps = lambda noise, deviations: (still(noise) for _ in deviations)
        Noise.rows = lambda noise, _, length: tuple(jnp.stack([half] * length) for half in still(noise))

    def __exit__(self, *_):
        Noise.steps, Noise.rows = self.methods


def still(noise):
    with jax.enable_x64(True):
        return (jnp.zeros(-(-noise._entries // 2)),) * 2


def bits(tree):
    return [np.asarray(leaf).view(np.int32).ravel().tolist() for leaf in jax.tree.leaves(tree)]


def noiseless(cluster):
    """What is trained on all records without noise, in bits."""
    found = {}
    with Quiet():
        for kind, (fields, options) in KINDS.items():
            options = {"microbatch": 8, **WORKERS, "cluster": cluster, **options}
            if "unit" in fields:
                options["groups"] = [f"{one} of {cluster.index}" for one in range(FIRST if cluster.first else N - FIRST)]
            found[kind] = bits(train_network(run_of(**fields), loss, params(), own(cluster, problem()), **options).params)
    return found


def flat(params, example):
    """Its gradient is the example."""
    return params @ example


def noise(cluster):
    """What steps on examples of zeros add to 4,001 weights; and the same from one seed in both processes."""
    run = run_of(steps=1, step_size=1.0, noise_multiplier=1.0, n=60, clip_norm=1.0)
    size = 20 if cluster.first else 40
    rows = np.zeros((size, 4001), np.float32)
    found = [
        train_network(run, flat, jnp.zeros(4001), rows, generator=generator, cluster=cluster, **WORKERS)
        for generator in (None, None, SecureGenerator(insecure_seed=3))
    ]
    names = sorted({assumption.name for assumption in found[0].assumptions})
    return {"noise": [one.params.tolist() for one in found], "words": [str(one.generator) for one in found], "names": names}


def batches(cluster):
    """How many records a step uses, times what each adds, without noise: one weight, which is their sum so far."""
    found = {}
    for sampling in (Poisson(30.0), RandomAllocation(30), FixedSize(30), Shuffled(67)):
        rows = np.full((FIRST, 1), 0.5, np.float32) if cluster.first else np.full((N - FIRST, 1), 0.25, np.float32)
        run = run_of(sampling=sampling, steps=210, update="post-processed", clip_norm=1.0)
        seen = []
        watched = Validation(lambda params, seen=seen: seen.append(float(params[0])) or 0.0, 1, "made up")
        divisor = float(np.asarray(sampling.divisors(N)))
        with Quiet():
            options = {"validation": watched, "cluster": cluster, "microbatch": 8, **WORKERS}
            result = train_network(run, flat, jnp.zeros(1), rows, optimizer=optax.sgd(-divisor), **options)
        found[sampling.kind] = {"sums": seen, "scores": len(result.scores), "last": float(result.last[0])}
    return found


def keys(cluster):
    """The mean over all records of a number that each draws by its key."""
    made = train_network(
        run_of(steps=1, noise_multiplier=0.01, clip_norm=9.0, update="post-processed", step_size=1.0),
        lambda params, example, key: params * (jax.random.normal(key) + 0 * example),
        jnp.float32(0.0),
        np.full(len(own(cluster, np.zeros(N))), float(cluster.index), np.float32),
        rng=True,
        average=0.5,
        cluster=cluster,
        **WORKERS,
    )
    return float(made.params)


def bent(cluster):
    """What makes the steps where contributions depend on their place in the compiled loop of one process, and the weights."""
    exact, ran, made_by = compiled.multipliers, SharedLoop.run_from, []

    def multipliers(gradients, used, lattice):
        found, valid = exact(gradients, used, lattice)
        by = 0.0 if cluster.first else 2.0**-20
        return [one._replace(values=one.values * (1 - by * jnp.arange(len(used)))) for one in found], valid

    def run_from(self, first):
        made_by.append(type(self).__name__)
        return ran(self, first)

    compiled.multipliers, SharedLoop.run_from = multipliers, run_from
    options = {"microbatch": 8, **WORKERS, "cluster": cluster}
    try:
        made_by += bits(train_network(run_of(step_size=0.1), loss, params(), own(cluster, problem()), **options).params)
    except InputError as error:
        made_by.append(str(error))
    return made_by


def slices(cluster):
    """Sums over all devices of rows that nearly overflow 32 bits, do, and are far beyond them; each must be exact."""
    sliced._TOGETHER = 15  # the first leaf is sent alone, and in 32 bits if that is enough
    shapes, devices = ((3, 5), (4,), (0,), ()), cluster.mesh.size
    way, rng, found = LeafSlices(devices, shapes), np.random.default_rng(0), []
    for largest in (2**31 // devices - 1, 2**31 // devices, 2**31, 2**50):
        leaves = [rng.integers(-1000, 1000, (devices, int(np.prod(shape)))).astype(float) for shape in (*shapes, ())]
        leaves[0][:, 2], leaves[1][:, 3], leaves[4][1:] = largest, -largest, 0

        def work(*rows):
            return way.gathered(way.scattered([row[0] for row in rows]))

        with jax.enable_x64(True):
            shared = jax.shard_map(work, mesh=cluster.mesh, in_specs=APART, out_specs=SAME, check_vma=False)
            sums = [one.addressable_data(0) for one in jax.jit(shared)(*map(cluster.divided, leaves))]
        exact = [sum(map(int, column)) for leaf in leaves for column in leaf.T]
        found.append([int(x) for one in sums for x in np.ravel(one)] == exact and [one.shape for one in sums] == [*shapes, ()])
    return found


def told(work):
    try:
        work()
    except InputError as error:
        return str(error)
    return "nothing"


def refusals(cluster):
    """What is said, in each process, of whatever does not fit."""
    second, examples = not cluster.first, own(cluster, problem())

    def say(examples=examples, loss=loss, start=None, options=None, **changes):
        run = run_of(**{"step_size": 0.1, **changes})
        return told(lambda: train_network(run, loss, start or params(), examples, cluster=cluster, **WORKERS, **(options or {})))

    adam = {"step_size": None, "update": "post-processed"}
    bad = jax.tree.map(np.copy, examples)
    bad[0][0, 0] = np.nan
    scales = jnp.ones(3) * (1 + second)
    constant = {"loss": lambda p, e: scales[1] * loss(p, e)}
    frozen = jax.tree.map(lambda leaf: leaf + second, params())
    seeded = {"generator": SecureGenerator(insecure_seed=1), "checkpoint": Checkpoint("never")}
    return {
        "n": say(n=N + 1),
        "run": say(steps=7 if second else 8),
        "loss": say(loss=(lambda p, e: 2 * loss(p, e)) if second else loss),
        "constant": say(**constant),
        "frozen": say(start={**params(), "b": frozen["b"]}, options={"trainable": {"w": True, "b": False, "v": True}}),
        "start": say(start=jax.tree.map(lambda leaf: leaf + 1, params()) if second else None),
        "optimizer": say(options={"optimizer": optax.adam(0.1 if second else 0.2)}, **adam),
        "seed": say(options={"generator": SecureGenerator(insecure_seed=1)} if second else None),
        "every": say(options={"checkpoint": Checkpoint(f"{sys.argv[4]}/every", 5 if second else 6)}),
        "rows": say(examples=problem(), n=2 * N),
        "not finite": say(examples=bad if second else examples),
        "no labels": say(unit="person"),
        "labels of rows": say(options={"groups": range(len(examples[0]))}),
        "labels of one": say(options={"groups": range(len(examples[0]))} if second else None),
        "too few labels": say(unit="person", options={"groups": [1, 2, 3]}),
        "persons": say(unit="person", options={"groups": range(10 * second, 10 * second + len(examples[0]))}),
        "one person": say(unit="person", options={"groups": ["x"] * len(examples[0])}),
        "seed and checkpoint": say(options=seeded),
        "no folder": say(options={"checkpoint": Checkpoint(f"{sys.argv[4]}/none/x")}),
        "then": say(),
    }


def killed(cluster):
    """Train with a checkpoint, slowly; somebody is killed. Says where it began and what it cost."""
    file, examples = Path(sys.argv[4]), own(cluster, problem())
    run = run_of(step_size=0.1, steps=60, sampling=Poisson(20.0))

    def slowly(done, _total):
        with open(f"{file}.{cluster.index}.steps", "a") as log:
            log.write(f"{done}\n")

    try:
        options = {"checkpoint": Checkpoint(file, 4), "progress": slowly, "microbatch": 8, **WORKERS}
        result = train_network(run, loss, params(), examples, cluster=cluster, **options)
    except ProcessLost as error:
        print(json.dumps(str(error)), flush=True)
        os._exit(3)
    runs = result.run.runs[1:] if hasattr(result.run, "runs") else ()
    return {"params": bits(result.params), "lost": [one.steps for one in runs], "steps": result.steps}


if __name__ == "__main__":
    faulthandler.dump_traceback_later(300, exit=True)  # no process outlives its test for long
    joined = Cluster.connect(sys.argv[1], 2, int(sys.argv[2]))
    if int(os.environ["ACCELERATORS"]):
        jax.default_backend = lambda: "gpu"
    answer = globals()[sys.argv[3]](joined)
    print(json.dumps(answer), flush=True)
    joined.close()
