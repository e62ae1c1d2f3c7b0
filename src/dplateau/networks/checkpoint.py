"""``Checkpoint``: a run that was killed goes on, and never says that it cost less than it did.

What a killed run did after its last checkpoint is unknown, and somebody may have seen it: scores, for example. So a file says
*before any noise is drawn* up to which step noise may have been drawn, and a run that goes on counts all these steps as taken, in
addition to the fresh ones that replace them. Keys and seeds are never written, so no step can be taken twice with the same noise,
unless the generator has an insecure seed: then the run goes on bit for bit, and is counted in the same way.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.files import LARGEST, as_path, read_small
from dplateau.spec import InputError, Run, Runs
from dplateau.spec.arguments import integer
from dplateau.training import SecureGenerator
from dplateau.training.errors import interrupts

KIND: Final = "dplateau checkpoint"
FORMAT: Final = 1
Arrays = Sequence[NDArray[Any]]


@dataclass(frozen=True)
class Checkpoint:
    """Where a run keeps what it needs to go on.

    Parameters
    ----------
    path : str or Path
        The file. It holds an iterate and scores, which the run's guarantee covers; no record, no key, no seed.
    every : int, default 100
        Steps between two checkpoints. A run that is killed and goes on costs up to so many more; under cyclic and shuffled
        sampling it is rounded up to whole epochs.

    Raises
    ------
    InputError
        ``every`` is not a positive whole number, or the path is none, or a folder.
    """

    path: str | Path
    every: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", integer("every", self.every))
        object.__setattr__(self, "path", as_path(self.path, "the checkpoint"))
        if self.path.is_dir():  # type: ignore[union-attr]
            raise InputError(f"the checkpoint {self.path} is a folder: name a file in it.")


@dataclass(frozen=True)
class Ledger:
    """What was spent: steps whose result is in the model, and steps that were lost.

    Attributes
    ----------
    done : int
        Steps whose result is kept.
    reserved : int
        Steps for which noise may have been drawn.
    lost : tuple of (int, int)
        First and last step (exclusive) of the parts that were taken, or may have been, and then taken again.
    processes : int
        How many processes trained together, at most.
    charged : bool
        Whether an account in a ledger pays.
    """

    done: int = 0
    reserved: int = 0
    lost: tuple[tuple[int, int], ...] = ()
    processes: int = 1
    charged: bool = False

    def resumed(self) -> Ledger:
        """The ledger of a run that goes on: what was reserved and not kept is lost."""
        lost = self.lost if self.reserved <= self.done else (*self.lost, (self.done, self.reserved))
        return replace(self, reserved=self.done, lost=lost)

    def fits(self, run: Run) -> bool:
        """Whether these are steps of the run."""
        parts = all(first < last <= run.steps for first, last in self.lost)
        return parts and self.done <= self.reserved <= run.steps and self.processes >= 1

    def runs(self, run: Run) -> Run | Runs:
        """What was computed, with all that was lost on the way."""
        return Runs((run, *(run.part(first, last) for first, last in self.lost))) if self.lost else run


def interval(run: Run, every: int) -> int:
    """Steps between two checkpoints: ``every``, or as many epochs where the sampling has any.

    Raises
    ------
    InputError
        One pass over the records cannot be interrupted: its bounds count every record once.
    """
    if run.sampling.once:
        raise InputError("a one-pass run takes no checkpoint: a part that is read again is not part of one pass.")
    epoch = run.sampling.epoch_length(run.n)
    return -(-every // epoch) * epoch


@dataclass(frozen=True)
class Saved:
    """What a file holds: the ledger, the arrays of the state, notes in JSON, and how much an insecure generator had drawn."""

    ledger: Ledger
    arrays: Arrays
    notes: dict[str, Any] = field(default_factory=dict)
    insecure: bool = False
    drawn: int = 0


def write(path: Path, run: Run, saved: Saved) -> None:
    """Write the file, whole or not at all, and only return when it is on the disk."""
    head = {
        "kind": KIND,
        "format": FORMAT,
        "run": run.digest,
        **asdict(saved.ledger),
        "notes": saved.notes,
        "insecure": saved.insecure,
        "drawn": saved.drawn if saved.insecure else 0,
    }
    content = io.BytesIO()
    arrays: dict[str, Any] = {f"a{k}": array for k, array in enumerate(saved.arrays)}
    with interrupts():  # One in there leaves an entry open, and the archive then refuses to be closed.
        np.savez(content, head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
    new = path.with_name(f".{path.name}.new")
    try:
        with open(new, "wb") as file:
            file.write(content.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with suppress(OSError):  # half a file would keep a full disk full
            new.unlink(missing_ok=True)
        raise InputError(f"the checkpoint {path} cannot be written ({error.strerror}): choose another path.") from None


def content_of(path: Path, like: Arrays) -> bytes | None:
    """What is in the file, which may be larger than arrays ``like`` its own by ``LARGEST``; None where there is none."""
    try:
        return read_small(path, "a checkpoint of this run", LARGEST + sum(array.nbytes for array in like))[0]
    except FileNotFoundError:
        return None


def read(path: Path, content: bytes, run: Run, like: Arrays, generator: SecureGenerator) -> Saved:
    """What the file's content says.

    Raises
    ------
    InputError
        It is not a checkpoint of this run, of this model and optimizer, or of such a generator; or it is damaged.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            head = json.loads(file["head"].tobytes())
            arrays = [file[f"a{k}"] for k in range(len(file.files) - 1)]
        if head["kind"] != KIND or head["format"] != FORMAT:
            raise ValueError
        lost = tuple((_whole(a), _whole(b)) for a, b in head["lost"])
        ledger = Ledger(
            _whole(head["done"]), _whole(head["reserved"]), lost, _whole(head.get("processes", 1)), head.get("charged") is True
        )
        scores = [(_whole(steps), float(score)) for steps, score in head["notes"]["scores"]]
        saved = Saved(ledger, arrays, {**head["notes"], "scores": scores}, bool(head["insecure"]), _whole(head["drawn"]))
    except Exception:  # Nearly anything: a damaged archive may claim to be encrypted, or to be of a later version of the format.
        raise InputError(
            f"{path} is not a checkpoint of this version, or it is damaged. What it had spent is unknown: restore it, or count its "
            "run as taken in full and start anew with another path."
        ) from None
    if head["run"] != run.digest:
        raise InputError(f"the checkpoint {path} belongs to another run: pass the run that it was made with, or another path.")
    if not ledger.fits(run):
        raise InputError(f"the checkpoint {path} was changed: it counts steps that the run does not have. Restore it.")
    if [(a.shape, a.dtype) for a in arrays] != [(a.shape, a.dtype) for a in like]:
        raise InputError(
            f"the checkpoint {path} belongs to another model, optimizer or validation: pass those that it was made with."
        )
    if saved.insecure != generator.insecure:
        raise InputError(
            f"the checkpoint {path} was made with {'an insecure seed' if saved.insecure else 'fresh randomness'}: "
            "continue it with a generator of the same kind."
        )
    return saved


def _whole(number: object) -> int:
    """A whole number that is not negative; raises ``ValueError`` where it is none."""
    if type(number) is not int or number < 0:
        raise ValueError
    return number


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from continuing the same run, which would spend twice and count once.

    Raises
    ------
    InputError
        Another process is at it, the folder does not exist, or the system (Windows) or the file system has no such locks.
    """
    try:
        import fcntl
    except ImportError:
        raise InputError("checkpoints need file locks of POSIX, which this system lacks: train without a checkpoint.") from None
    try:
        lock = open(path.with_name(f"{path.name}.lock"), "a")  # noqa: SIM115 (what is in it stays)
    except OSError as error:
        raise InputError(f"the checkpoint {path} cannot be written ({error.strerror}): choose another path.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process is at work on the checkpoint {path}: wait for it, or choose another path.") from None
        except OSError as error:  # a file system without locks
            raise InputError(f"the checkpoint {path} cannot be locked ({error.strerror}): choose another path.") from None
        yield
