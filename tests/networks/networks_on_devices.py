"""What ``test_several_accelerators.py`` runs in one process whose three devices are processors that pass for accelerators."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from networks_on_two import N, Quiet, bits, loss, params, problem, run_of

from dplateau.networks import compiled, device, shared_compiled, train_network
from dplateau.spec import Cyclic, FullBatch, InputError, Poisson
from dplateau.training import Cluster, SecureGenerator, groups


def trained(sampling, memory=float("inf"), group=16, **options):
    compiled.memory = shared_compiled.memory = device.memory = lambda: memory
    groups._GROUPS, groups.LARGEST = 1, group
    options = {"microbatch": 8, "cluster": Cluster(), "generator": SecureGenerator(insecure_seed=5), **options}
    with Quiet():
        return bits(train_network(run_of(sampling=sampling, steps=42, step_size=0.3), loss, params(), problem(), **options).params)


def ways():
    """The same training in microbatches of two sizes, with records that do not fit a device, and on one device, which asks
    after every iteration whether to go on.
    """
    found = {}
    too_little = sum(column.nbytes for column in problem()) / 3 / device.RECORDS - 1
    for sampling in (Poisson(20.0), Cyclic(67), FullBatch()):
        small, large = (trained(sampling, microbatch=size) for size in (8, 64))
        found[sampling.kind] = [small, large, trained(sampling, too_little), trained(sampling, cluster=None, group=1)]
    return found


def keys():
    """The mean over all records of a number that each draws by its key, in two steps."""
    made = []
    for _ in range(2):
        run = run_of(steps=2, step_size=0.5, noise_multiplier=0.01, clip_norm=9.0)
        drawn = lambda params, example, key: params * (jax.random.normal(key) + 0 * example)  # noqa: E731
        made.append(train_network(run, drawn, jnp.float32(0.0), np.zeros(N, np.float32), rng=True, cluster=Cluster()))
    return [float(one.params) for one in made]


def bent():
    """What is said where contributions depend on their place, or on others."""
    exact, said = compiled.multipliers, []
    for wrong in ("place", "neighbours"):

        def multipliers(gradients, used, lattice, wrong=wrong):
            found, valid = exact(gradients, used, lattice)
            by = jnp.arange(len(used)) if wrong == "place" else 1000 * jnp.sum(gradients[0].values) % 1
            return [one._replace(values=one.values * (1 - 2.0**-20 * by)) for one in found], valid

        compiled.multipliers = multipliers
        try:
            train_network(run_of(step_size=0.1), lambda p, e: loss(p, e), params(), problem(), cluster=Cluster())
            said.append("nothing")
        except InputError as error:
            said.append(str(error))
    return said


def few():
    """What fewer records than devices make of the weights, and one device of them."""
    run, two = run_of(n=2, step_size=0.1), [column[:2] for column in problem()]
    with Quiet():
        return [
            bits(train_network(run, loss, params(), two, cluster=cluster, microbatch=8).params) for cluster in (Cluster(), None)
        ]


if __name__ == "__main__":
    jax.default_backend = lambda: "gpu"
    print(json.dumps(globals()[sys.argv[1]]()))
