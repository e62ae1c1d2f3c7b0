"""A command whose work is done by one of several processes: a child does it, and its parent says in one line how that ended.

JAX ends a process where it stands when its coordinator is gone, and says so in many lines. What it and its libraries write goes
nowhere; only what this package prints is seen.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from dplateau.cli.process import INTERRUPTED, patient
from dplateau.cli.told import CHECK_FAILED, failed, told
from dplateau.spec.errors import InputError, ProcessLost, UncertifiedError

if TYPE_CHECKING:
    from dplateau.training import Cluster

PLACE: Final = "{process}"
"""In the name of a file: the number of the process."""
LOST: Final = "another process ended, or cannot be reached: nothing was released here."
ALONE: Final = (
    "not all processes were there in time: start all of them with the same coordinator and number of processes, each with a "
    "process id of its own, and see that every machine can reach the coordinator."
)
_CONNECTED: Final = 255
"""What a child says when all are there, before its exit status."""


def distributed(work: Callable[[Cluster], None], coordinator: str | None, processes: int | None, process_id: int | None) -> int:
    """Do ``work`` as one of several processes; the exit status.

    A process that is lost ends the others: the work of each is finished once all have agreed that it is.
    """
    if not hasattr(os, "fork"):
        raise InputError("--distributed needs a system like Linux: there is no fork here.")
    sys.stdout.flush()
    sys.stderr.flush()
    status, alive = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads of linear algebra wait for work
        child = os.fork()
    if not child:
        os.setpgid(0, 0)  # a terminal sends Ctrl-C to the parent alone, which passes it on
        os.close(status[0])
        os.close(alive[1])
        _child(work, (coordinator, processes, process_id), status[1], alive[0])
    os.close(status[1])
    os.close(alive[0])
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda number, _: os.kill(child, number))
    connected = (said := os.read(status[0], 1)) == bytes([_CONNECTED])
    said = os.read(status[0], 1) if connected else said
    _, ended = os.waitpid(child, 0)
    if said:
        return said[0]
    number = os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else 0
    if number == signal.SIGINT:
        return INTERRUPTED
    if number in (0, signal.SIGABRT):
        return failed(LOST if connected else ALONE, CHECK_FAILED)
    return failed(f"the process was ended by signal {signal.Signals(number).name}: nothing was released here.", CHECK_FAILED)


def _child(work: Callable[[Cluster], None], where: tuple[str | None, int | None, int | None], status: int, alive: int) -> NoReturn:
    """Do the work, tell the parent the exit status, take leave of the other processes, and end."""
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()
    _apart()
    code, polite, cluster = CHECK_FAILED, False, None
    try:
        from dplateau.training import Cluster
        from dplateau.training.cluster import agree_on_code

        with _endable():
            cluster = Cluster.connect(*where)
        os.write(status, bytes([_CONNECTED]))
        agree_on_code(cluster)
        if not cluster.first:
            warnings.simplefilter("ignore")  # process 0 says it
        work(cluster)
        code, polite = 0, True
    except KeyboardInterrupt:
        code = INTERRUPTED  # the parent says it
    except ProcessLost as error:
        code = told(error)
    except Exception as error:
        # Whatever we refuse is refused by all processes; a crash is not.
        code, polite = told(error), isinstance(error, InputError | UncertifiedError)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(status, bytes([code]))
        if polite and cluster is not None:
            cluster.close()
    finally:
        os._exit(code)


@contextmanager
def _endable() -> Iterator[None]:
    """Let a signal end this process at once: Python would hear it when the others are there, or after minutes."""
    handlers = {one: signal.signal(one, signal.SIG_DFL) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)


def _end_with_parent(alive: int) -> None:
    """End where the parent does, however it ended: nobody waits for the result any more."""
    os.read(alive, 1)
    os._exit(CHECK_FAILED)


def _apart() -> None:
    """Give standard output and error to this package alone; what libraries write into them goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream, own = getattr(sys, name), os.dup(number)
        if stream.isatty():
            setattr(sys, name, os.fdopen(own, "w", encoding=stream.encoding, errors=stream.errors))
        else:
            setattr(sys, name, patient(stream, own))
        os.dup2(nowhere, number)
