"""``Cluster``: the devices of one or several processes that train one model, each process on rows of its own.

Whatever the processes tell one another goes through here: sizes, digests, what went wrong, and inside a step the sums and the noisy
slices of the weights (``Slices``). They trust each other and the network between them: sums travel without noise.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from dplateau.spec import InputError, UncertifiedError
from dplateau.spec.arguments import integer, of_type
from dplateau.training.errors import ProcessLost

T = TypeVar("T")
AXIS: Final = "devices"
APART, SAME = PartitionSpec(AXIS), PartitionSpec()
"""How arrays lie on the devices: each has its part along the first axis, or all have the same."""
HEARTBEAT: Final = 100
"""Seconds after which a process that does not answer counts as lost: longer than virtual machines are paused to be moved."""
LEAVE: Final = 20
"""Seconds in which the others take leave at the end."""
PATIENCE: Final = 300
"""Seconds in which all processes must have started."""
_TEXT: Final = 1024
"""Bytes of a message about what went wrong."""
_HEAD: Final = 16
"""Bytes that say what an exchange is about."""
_FRAME: Final = 1280
"""Bytes with which every exchange begins, whatever it is about: libraries do not check that all processes send as many."""
_LIBRARIES: Final = ("jax", "jaxlib", "numpy", "scipy")
_SETTINGS: Final = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl", "jax_numpy_dtype_promotion")
_STATUS: Final = re.compile(r"[A-Z_]+: ")
"""How errors of XLA begin that come as other errors than its own."""


class Slices(NamedTuple):
    """How a step is shared among devices: each adds the noise of its own slice of the weights.

    On one device nothing is shared, and every method returns what it is given.
    """

    devices: int = 1

    def scattered(self, sums: Any) -> Any:
        """The own slice, of shape (k, slice), of the sum over devices of ``sums`` (k, *weights)."""
        if self.devices == 1:
            return sums
        parts = self.parted(sums.reshape(len(sums), -1))
        # Twice as fast as ``psum_scatter`` on processors: it sends as much, and adds in one place.
        return jax.lax.all_to_all(parts, AXIS, split_axis=1, concat_axis=1, tiled=True).sum(axis=1)

    def own(self, values: Any, shape: tuple[int, ...]) -> Any:
        """The own slice of what has, or stretches to, the weights' ``shape``."""
        if self.devices == 1:
            return values
        (parts,) = self.parted(jnp.broadcast_to(values, shape).reshape(1, -1))
        return jax.lax.dynamic_index_in_dim(parts, jax.lax.axis_index(AXIS), keepdims=False)

    def gathered(self, own: Any, shape: tuple[int, ...]) -> Any:
        """The array of the weights' ``shape`` whose slices the devices have."""
        if self.devices == 1:
            return own
        return jax.lax.all_gather(own, AXIS, tiled=True)[: int(np.prod(shape))].reshape(shape)

    def size(self, shape: tuple[int, ...]) -> int:
        """Weights of a slice; the last slices may be shorter, or empty, and are filled up."""
        return -(-int(np.prod(shape)) // self.devices)

    def parted(self, rows: Any) -> Any:
        """Rows of weights, (k, weights), as the slices of the devices: (k, devices, slice)."""
        return jnp.pad(rows, ((0, 0), (0, -rows.shape[1] % self.devices))).reshape(len(rows), self.devices, -1)


ALONE: Final = Slices()


@dataclass(frozen=True)
class Cluster:
    """The devices of one process, or of several that ``jax.distributed`` has connected.

    Parameters
    ----------
    mesh : jax.sharding.Mesh, optional
        The devices, by default all of all processes. With several processes it must have all devices.

    Raises
    ------
    InputError
        The mesh has not all devices of several processes, or devices of none.

    Examples
    --------
    >>> cluster = Cluster()
    >>> cluster.processes, cluster.index
    (1, 0)
    """

    mesh: Mesh = field(default_factory=lambda: Mesh(np.array(jax.devices()), (AXIS,)))

    def __post_init__(self) -> None:
        given, known = list(self.mesh.devices.flat), jax.devices()
        if len(set(given)) != len(given) or not set(given) <= set(known):
            raise InputError("the mesh has devices that this program does not have, or one twice: use jax.devices().")
        if jax.process_count() > 1 and len(given) != len(known):
            raise InputError(f"the mesh has {len(given)} devices of {len(known)}: with several processes it must have all.")
        ordered = sorted(given, key=lambda one: (one.process_index, one.id))
        object.__setattr__(self, "mesh", Mesh(np.array(ordered), (AXIS,)))

    @classmethod
    def connect(
        cls, coordinator: str | None = None, processes: int | None = None, process_id: int | None = None, **options: Any
    ) -> Cluster:
        """Connect this process to the others, before JAX computes anything, and return the cluster of all their devices.

        Parameters
        ----------
        coordinator : str, optional
            "HOST:PORT" of process 0; any free port. On Slurm, Open MPI and Kubernetes JAX finds all of it by itself.
        processes, process_id : int, optional
            How many processes there are, and which this is, from 0.
        **options
            Further arguments of ``jax.distributed.initialize``.

        Raises
        ------
        InputError
            Something has to be given and is not, or is wrong.
        ProcessLost
            Not all processes were there in time.
        """
        _check_place(coordinator, processes, process_id)
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.config.update("jax_enable_preemption_service", False)
        times: dict[str, Any] = {
            "initialization_timeout": PATIENCE,
            "heartbeat_timeout_seconds": HEARTBEAT,
            "shutdown_timeout_seconds": LEAVE,
        }
        why = ""
        try:
            with _patient_threads():
                jax.distributed.initialize(coordinator, processes, process_id, **times | options)
                cluster = cls()
                # Later the first exchange would wait for others no longer than half a minute.
                said = cluster.exchanged(np.array(processes or cluster.processes)).tolist()
            if set(said) != {cluster.processes}:
                raise InputError(f"the processes were told of {said} processes in all: start all with the same number.")
            return cluster
        except InputError:
            raise
        except (ValueError, TypeError) as error:
            raise InputError(f"the cluster is not known: {_line(error)} Give coordinator, processes and process_id.") from None
        except RuntimeError as error:
            if "before any JAX" in str(error) or "only be called once" in str(error):
                raise InputError("JAX has been used, or connected, in this process already: connect first, and once.") from None
            why = _line(error)
        raise ProcessLost(f"the processes could not be connected: {why}")

    @property
    def processes(self) -> int:
        """How many processes there are."""
        return len({one.process_index for one in self.mesh.devices.flat})

    @property
    def index(self) -> int:
        """Which this one is, from 0."""
        return jax.process_index() if self.processes > 1 else 0

    @property
    def first(self) -> bool:
        """Whether this is process 0, which alone writes files and ledgers."""
        return self.index == 0

    @property
    def own(self) -> int:
        """Devices of this process."""
        return len(self.mesh.local_devices)

    @property
    def slices(self) -> Slices:
        """One slice of the weights a device."""
        return Slices(self.mesh.size)

    def put(self, values: Any, spec: PartitionSpec = SAME) -> jax.Array:
        """A global array: with the own devices' parts along the first axis, or, by default, of what all processes have."""
        return jax.make_array_from_process_local_data(NamedSharding(self.mesh, spec), np.asarray(values))

    def divided(self, values: NDArray[Any]) -> jax.Array:
        """A global array that all processes know, of which each device keeps its part along the first axis."""
        return jax.make_array_from_callback(values.shape, NamedSharding(self.mesh, APART), values.__getitem__)

    def joined(self, parts: Sequence[jax.Array]) -> jax.Array:
        """A global array of parts along the first axis, of one size on all devices; these are those of the own devices."""
        shape, sharding = (self.mesh.size * len(parts[0]), *parts[0].shape[1:]), NamedSharding(self.mesh, APART)
        held = [jax.device_put(part, device) for part, device in zip(parts, self.mesh.local_devices, strict=True)]
        return jax.make_array_from_single_device_arrays(shape, sharding, held)

    def whole(self, array: jax.Array) -> jax.Array:
        """All of a global array, on a device of this process; all processes must ask for it."""
        with self.watched():
            found = jax.jit(_itself, out_shardings=NamedSharding(self.mesh, SAME))(array)
            return jax.block_until_ready(found).addressable_data(0)

    def exchanged(self, values: NDArray[Any], what: str = "numbers") -> NDArray[Any]:
        """What each process gives here, of one shape and type, as an array (processes, *shape).

        Raises
        ------
        InputError
            In every process: not all exchange ``what`` this one does, in this shape and type.
        """
        if self.processes == 1:
            return values[None]
        own = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        head = hashlib.sha256(repr((what, values.dtype.str, values.shape)).encode()).digest()[:_HEAD]
        fits = len(own) <= _FRAME - _HEAD
        frames = self._gathered(np.frombuffer((head + own.tobytes() if fits else head).ljust(_FRAME, b"\0"), np.uint8))
        if unlike := [place for place, one in enumerate(frames[:, :_HEAD]) if (one != frames[0, :_HEAD]).any()]:
            raise InputError(
                f"the processes do not do the same: process {unlike[0]} is at another place of the program than process 0. Let all"
                " call the same functions, in the same order."
            )
        found = frames[:, _HEAD : _HEAD + len(own)] if fits else self._gathered(own)
        return np.ascontiguousarray(found).view(values.dtype).reshape(self.processes, *values.shape)

    def _gathered(self, own: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bytes of all processes, which must be as many in each: (processes, bytes)."""
        with self.watched():
            return np.asarray(multihost_utils.process_allgather(own)).reshape(self.processes, -1)

    def agree(self, facts: Mapping[str, str]) -> None:
        """Raise ``InputError`` in every process unless all have the same texts; only their digests are exchanged."""
        own = [hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest() for text in facts.values()]
        found = self.exchanged(np.frombuffer(b"".join(own), np.uint8).reshape(len(own), -1), f"facts {list(facts)}")
        for name, column in zip(facts, found.swapaxes(0, 1), strict=True):
            if unlike := [place for place, one in enumerate(column) if (one != column[0]).any()]:
                raise InputError(
                    f"the processes disagree: process {unlike[0]} has another {name} than process 0. Start all with the same"
                    " version, arguments and schema. Nothing was drawn."
                )

    def together(self, work: Callable[[], T]) -> T:
        """What ``work`` returns here, if it went well in every process; an error in all of them otherwise."""
        found: list[T] = []
        failed: Exception | None = None
        try:
            found.append(work())
        except Exception as error:
            failed = error
        # Messages of other libraries may quote rows.
        ours = str(failed) if isinstance(failed, InputError | UncertifiedError) else ""
        text = "" if failed is None else ours or f"{type(failed).__name__}, see there."
        # Names of files may have bytes that are no text.
        words = text.encode("utf-8", "backslashreplace")[:_TEXT].ljust(_TEXT, b"\0")
        said = self.exchanged(np.frombuffer(words, np.uint8), "errors")
        if failed is not None:
            raise failed
        for place, one in enumerate(said):
            if message := one.tobytes().rstrip(b"\0").decode(errors="ignore"):
                raise InputError(f"process {place}: {message}")
        return found[0]

    def of_first(self, work: Callable[[], bytes]) -> bytes:
        """What ``work`` returns in process 0, which alone does it, in every process; its error in all of them."""
        return self.told(self.together(lambda: work() if self.first else b""))

    def told(self, content: bytes) -> bytes:
        """What process 0 gives here, in every process."""
        length = int(self.exchanged(np.array(len(content)), "a length")[0])
        own = np.frombuffer(content if self.first else bytes(length), np.uint8)
        with self.watched():
            return np.asarray(multihost_utils.broadcast_one_to_all(own)).astype(np.uint8).tobytes()

    def before(self, own: int) -> int:
        """How many records the processes before this one have, which has ``own``: the number of its first one."""
        return int(self.exchanged(np.array(own))[: self.index].sum())

    def most(self, *numbers: int) -> list[int]:
        """The largest of each number among the processes."""
        return self.exchanged(np.array(numbers, np.int64), "the most").max(axis=0).tolist()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Turn what a library says when another process is gone into one ``ProcessLost``.

        It is raised outside the handler, so that it does not lead back to frames that hold weights.
        """
        why = ""
        try:
            yield
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            lost = isinstance(error, jax.errors.JaxRuntimeError) or _STATUS.match(str(error))
            if self.processes == 1 or not lost:
                raise
            why = _line(error)
        if why:
            raise ProcessLost(f"another process ended, or cannot be reached: nothing was released ({why}).")

    def close(self) -> None:
        """Take leave of the other processes; what happens to them now is no longer this one's concern."""
        if self.processes > 1:
            with suppress(Exception):
                jax.distributed.shutdown()


@contextmanager
def _patient_threads() -> Iterator[None]:
    """Threads that are started here do not interrupt others on their core (Linux).

    The thread that receives messages looks for them without a pause while another one holds its lock. If it interrupts that one on
    the only core, both stand still until the kernel takes turns: 4 ms for sums that otherwise take 0.1 ms.
    """

    def changed(before: str, after: str) -> bool:
        """Whether the policy was the one, and is the other now."""
        try:
            if sys.platform != "linux" or os.sched_getscheduler(0) != getattr(os, before):
                return False
            os.sched_setscheduler(0, getattr(os, after), os.sched_param(0))
        except OSError:  # It is not allowed: sums are slower then.
            return False
        return True

    patient = changed("SCHED_OTHER", "SCHED_BATCH")
    try:
        yield
    finally:
        if patient:
            changed("SCHED_BATCH", "SCHED_OTHER")


def _check_place(coordinator: str | None, processes: int | None, process_id: int | None) -> None:
    """Raise ``InputError`` where a port is missing or taken, or there are no such processes: JAX would crash, or wait for them."""
    host, _, port = (coordinator or "HOST:1").rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 1 << 16:
        raise InputError(f"the coordinator is {coordinator!r}: expected HOST:PORT, such as 10.0.0.1:5000.")
    count = None if processes is None else integer("processes", processes)
    place = None if process_id is None else integer("process_id", process_id, low=0)
    if count is not None and place is not None and place >= count:
        raise InputError(f"process_id is {place}: expected a number from 0 to {count - 1}, of {count} processes.")
    if coordinator is not None and place == 0:
        with socket.socket() as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                own.bind(("", int(port)))
            except OSError as error:  # JAX would crash
                raise InputError(
                    f"process 0 cannot use port {port} of this machine ({error.strerror}): give another one."
                ) from None


def agree_on_code(cluster: Cluster) -> None:
    """Raise ``InputError`` unless all processes compute with the same code; the first thing that they tell one another."""
    of_type("cluster", cluster, Cluster).agree(code_of())


def code_of() -> dict[str, str]:
    """What computes, and how JAX is set up, as facts to agree on: compiled steps must be the same ones."""
    return {"version of dplateau, or of a library": code(), "setting of JAX": str([getattr(jax.config, one) for one in _SETTINGS])}


def _itself(array: jax.Array) -> jax.Array:
    return array


def _line(error: Exception) -> str:
    """The first line of a message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


@cache
def code() -> str:
    """What computes: the version, the source of this package, and the libraries."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return ", ".join([f"dplateau {digest.hexdigest()}", *(f"{name} {version(name)}" for name in _LIBRARIES)])
