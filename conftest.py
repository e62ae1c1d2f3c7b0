"""What the tests of the library and of the papers share."""

import ast
import os
import subprocess
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

# Libraries read these when they are imported. Tests run side by side already: threads of linear algebra would wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Many tests compare bits, noise and precision with what processors give. JAX_PLATFORMS=cuda runs them on a GPU all the same.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# What JAX has compiled is kept for the next time, and for processes that tests start. Delete the folder to compile again.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

SLOW = Path(__file__).parent / "tests" / "slow.txt"
"""Names of the slow tests; ``pytest -n auto --time`` runs all tests and writes them anew."""
_MOST = 1.0
"""Seconds that a quick test takes at most, with all its parameters and on one processor."""
_took = Counter[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of our own."""
    parser.addoption("--tests", choices=("all", "quick", "slow"), default="all", help="which tests to run, by tests/slow.txt")
    parser.addoption("--time", action="store_true", help="write the names of the slow tests to tests/slow.txt")


def _name(node: str) -> str:
    """That of a test, for all its parameters."""
    return node.partition("[")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not wanted."""
    wanted = config.getoption("--tests")
    if wanted != "all":
        slow = set(SLOW.read_text().split())
        kept: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            kept[(_name(item.nodeid) in slow) == (wanted == "slow")].append(item)
        config.hook.pytest_deselected(items=kept[False])
        items[:] = kept[True]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what each test takes, with its fixtures."""
    _took[_name(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down which tests were slow; several processes report to the first."""
    if session.config.getoption("--time") and not hasattr(session.config, "workerinput"):
        SLOW.write_text("".join(f"{name}\n" for name in sorted(_took) if _took[name] > _MOST))


@pytest.fixture
def dplateau(capfd):
    """Run a command line in this process; returns the exit status, standard output and standard error."""
    from dplateau.cli.main import status

    def call(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = status([str(argument) for argument in arguments])
        return code, *capfd.readouterr()

    return call


@pytest.fixture(scope="session")
def process():
    """Run Python code, or a command line, in a process of its own."""

    def call(*arguments: object, code: str | None = None, **options) -> subprocess.CompletedProcess[str]:
        start = ["-c", code] if code is not None else ["-c", "from dplateau.cli.main import run; run()"]
        environment = {**os.environ, "COLUMNS": "80", **options.pop("env", {})}
        command = [sys.executable, *start, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, **options)

    return call


@pytest.fixture(scope="session")
def circle():
    """Find files that import each other in a circle: names in order, or nothing. Imports for types and inside functions count."""

    def imported(file: Path, files: dict[str, Path]) -> set[str]:
        found = set[str]()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                # A name is a file of its own, or stands in the package's.
                found |= {name if (name := f"{node.module}.{each.name}") in files else node.module for each in node.names}
            elif isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
        return found & files.keys()

    def find(source: Path) -> list[str]:
        paths = {path: path.relative_to(source).with_suffix("").parts for path in source.rglob("*.py")}
        files = {".".join(parts).removesuffix(".__init__"): path for path, parts in paths.items()}
        try:
            TopologicalSorter({name: imported(path, files) - {name} for name, path in files.items()}).prepare()
        except CycleError as error:
            return error.args[1]
        return []

    return find
