"""What several rooms of tests share."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their place: those of a packed file hold the second it was made in, which differs between workers."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The documentation, built strictly: a warning fails every test that looks at it."""
    if not all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocstrings")):
        pytest.skip("mkdocs is not installed")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # one site for all workers: who comes first builds it
    folder, said = shared / "site", shared / "site.txt"
    try:
        (shared / "site.lock").mkdir()
    except FileExistsError:
        while not said.exists():
            time.sleep(0.1)
    else:
        said.write_text(_built(folder))
    assert folder.is_dir(), said.read_text()
    return folder


def _built(folder: Path) -> str:
    """Build the site; what was said. The folder is there if all is well."""
    draft = folder.with_name("draft")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(draft)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if not built.returncode:
        draft.rename(folder)
    return built.stdout + built.stderr
