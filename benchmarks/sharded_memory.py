"""What a weight takes on each of several devices while a network is trained: the buffers that XLA plans for the compiled loop.

    python benchmarks/sharded_memory.py                     # 16 layers of 1,024 x 1,024, about a minute
    python benchmarks/sharded_memory.py --places 16         # examples are 16 rows, as words of a text are

Devices are processors that pass for accelerators, so nothing is timed. Adam, averages of iterates, microbatches of two examples and
chunks of two steps.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import Any

DEVICES = (1, 2, 4, 8)


class PlannedError(Exception):
    """Raised in place of a compiled loop, with what it would take."""


def planned(devices: int, arguments: argparse.Namespace) -> None:
    """Print bytes a weight on each device."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    from dplateau.networks import compiled, shared_compiled, train_network
    from dplateau.spec import Poisson, Run
    from dplateau.training import Cluster

    def repeatable(function: Any, *static: str, way: int = 0) -> Any:  # noqa: ARG001
        def compiled(*given: Any, **how: Any) -> Any:
            memory = jax.jit(function, static_argnames=static).lower(*given, **how).compile().memory_analysis()
            assert memory is not None
            kept = memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.temp_size_in_bytes
            raise PlannedError(kept)

        return compiled

    jax.default_backend = lambda: "gpu"
    compiled.repeatable = shared_compiled.repeatable = repeatable  # type: ignore[attr-defined]
    rng, width, n = np.random.default_rng(0), arguments.width, 64
    params = [jnp.asarray(rng.normal(size=(width, width)) / width**0.5, jnp.float32) for _ in range(arguments.layers)]
    shape = (n, width) if arguments.places == 1 else (n, arguments.places, width)

    def loss(params: Any, example: Any) -> Any:
        for layer in params:
            example = jnp.tanh(example @ layer)
        return jnp.sum(example**2)

    run = Run(n=n, sampling=Poisson(8.0), steps=2, noise_multiplier=1.0, clip_norm=1.0, update="post-processed")
    how: Any = {"optimizer": optax.adam(1e-3), "average": 0.5, "microbatch": 2}
    try:
        train_network(run, loss, params, rng.normal(size=shape).astype(np.float32), cluster=Cluster(), **how)
    except PlannedError as found:
        before, after, between = (size / (arguments.layers * width**2) for size in found.args[0])
        whole = before + after + between
        print(f"{devices:>7} {whole:>7.1f}   {before:.1f} before, {after:.1f} after, {between:.1f} while it is at work")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=1_024)
    parser.add_argument("--places", type=int, default=1)
    parser.add_argument("--devices", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.devices:
        planned(arguments.devices, arguments)
        return
    print("devices   bytes a weight on each")
    for devices in DEVICES:
        environment = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
        command = [sys.executable, "-W", "ignore", __file__, f"--devices={devices}", *sys.argv[1:]]
        subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    main()
