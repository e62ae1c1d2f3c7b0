"""Finished trainings, kept in a file so that an interrupted reproduction goes on where it stopped; their means and their cost."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from dplateau._account import account
from dplateau.files import LARGEST, read_small
from dplateau.spec import InputError, Run, Runs

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

Setting: TypeAlias = dict[str, Any]
Result: TypeAlias = dict[str, Any]
Train: TypeAlias = Callable[[Setting, int], Result]


class Records:
    """Results as lines of JSON, one a training; what is in the file is not done again.

    A line says what was asked for (``setting``, ``seed``) and what came out (``result``). A last line whose
    writing was interrupted has no end, and its training is done again. While trainings are collected the file is locked, so that
    two processes do not do the same; on Windows, which has no such locks, nothing keeps them from it.

    Parameters
    ----------
    path : str or Path
        The file; it need not exist.

    Raises
    ------
    InputError
        The file cannot be read, or one of its lines is no such record.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.lines: list[dict[str, Any]] = []
        with suppress(FileNotFoundError):
            self._parse(read_small(self.path, "records of trainings", LARGEST)[0])

    def _parse(self, content: bytes) -> int:
        """Take the complete lines; returns their length in bytes."""
        complete = content[: content.rfind(b"\n") + 1]
        self.lines = [self._record(number, line) for number, line in enumerate(complete.splitlines(), 1)]
        return len(complete)

    def _record(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            match json.loads(line):
                case {"setting": dict(), "seed": int(), "result": dict()} as record:
                    return record
                case _:
                    pass
        except ValueError:
            pass
        raise InputError(
            f"{self.path}, line {number} is not a record of a training: expected an object with setting, seed and result. Remove "
            "the line, or name another folder for records."
        )

    def _failed(self, what: str, error: OSError) -> InputError:
        reason = error.strerror or "input/output error"
        return InputError(f"the records {self.path} cannot be {what}: {reason}. Name another folder for records.")

    def results(self, setting: Setting) -> list[Result]:
        """What came out of all trainings with this setting, in the order in which they were done."""
        setting = _plain(setting)
        return [line["result"] for line in self.lines if line["setting"] == setting]

    def values(self, setting: Setting, name: str) -> list[float]:
        """One number of each of these results.

        Raises
        ------
        InputError
            A result has no such number.
        """
        found = [result.get(name) for result in self.results(setting)]
        if not all(isinstance(value, float | int) for value in found):
            raise InputError(f"{self.path} has results without {name!r}, of another version: name another folder for records.")
        return found  # type: ignore[return-value]

    def collect(
        self, settings: Iterable[Setting], seeds: Sequence[int], train: Train, say: Callable[[str], None] = lambda _: None
    ) -> None:
        """Train what is missing: all settings with the first seed, then with the second, and so on.

        Parameters
        ----------
        settings : iterable of dict
            What is asked for, as plain data.
        seeds : sequence of int
            A training for each.
        train : callable
            ``train(setting, seed)`` gives the result, plain data of finite numbers. It is on the disk before the next one begins.
        say : callable
            Told what is being done: "3 of 25: row 1, seed 1".

        Raises
        ------
        InputError
            Another process is collecting the same records, or the file cannot be written.
        """
        settings = [_plain(setting) for setting in settings]
        if not self._missing(settings, seeds):
            return  # A folder that can only be read will do.
        try:
            with open(self.path, "a+b") as file:
                self._lock(file)
                # The lock was another's until now: what it finished counts, and what it did not is cut off.
                file.seek(0)
                file.truncate(self._parse(file.read()))
                todo = self._missing(settings, seeds)
                for number, (setting, seed) in enumerate(todo, 1):
                    say(f"{number} of {len(todo)}: {_words(setting)}, seed {seed}")
                    record = {"setting": setting, "seed": seed, "result": _trained(train, setting, seed)}
                    file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                    self.lines.append(_plain(record))
        except OSError as error:
            raise self._failed("written", error) from None

    def _missing(self, settings: Sequence[Setting], seeds: Sequence[int]) -> list[tuple[Setting, int]]:
        known = [(line["setting"], line["seed"]) for line in self.lines]
        return [(setting, seed) for seed in seeds for setting in settings if (setting, seed) not in known]

    def _lock(self, file: IO[bytes]) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process adds to the records {self.path}: wait for it, or name another folder.") from None


def _trained(train: Train, setting: Setting, seed: int) -> Result:
    """A training, whose own errors of the operating system are no errors of the records."""
    try:
        return train(setting, seed)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise InputError(f"{where}{error.strerror or error}, in the training with {_words(setting)}, seed {seed}.") from error


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """As it is after it was written and read: tuples are lists, keys are strings."""
    return json.loads(json.dumps(value))


def _words(setting: Setting) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in setting.items())


def certified(run: Run | Runs, delta: float) -> dict[str, float]:
    """What a run costs: ``epsilon`` is the least proved one (infinite: there is none), ``clt`` and ``moments`` the papers' own."""
    report = account(run, delta)
    names = {"clt": "gdp-clt", "moments": "moments-accountant"}
    rows = {row.name: row.epsilon for row in report.bounds}
    found = {key: value.upper for key, name in names.items() if (value := rows.get(name)) is not None}
    return {"epsilon": report.epsilon} | found


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard deviation, for a table; "not run" where there is nothing."""
    if not values:
        return "not run"
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}"


def gap(values: Sequence[float], others: Sequence[float]) -> tuple[float, float] | None:
    """Difference of the means and its standard error; None where there are less than two of either."""
    if min(len(values), len(others)) < 2:
        return None
    error = (statistics.variance(values) / len(values) + statistics.variance(others) / len(others)) ** 0.5
    return statistics.mean(values) - statistics.mean(others), error


def difference(values: Sequence[float], others: Sequence[float], digits: int = 2) -> str:
    """``gap`` for a table; empty where there is none."""
    found = gap(values, others)
    return "" if found is None else f"{found[0]:+.{digits}f} ± {found[1]:.{digits}f}"
