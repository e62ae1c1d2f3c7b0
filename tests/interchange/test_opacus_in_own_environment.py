"""The tests with Opacus, in an environment made for them: torch is too large for the one that the other tests use.

``DPLATEAU_TEST_OPACUS=1 python -m pytest tests/interchange`` downloads torch and takes some minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("torch==2.13.0", "opacus==1.6.0", "pytest>=8")


@pytest.mark.skipif(not os.environ.get("DPLATEAU_TEST_OPACUS"), reason="set DPLATEAU_TEST_OPACUS=1 to download torch and Opacus")
def test_opacus_in_own_environment(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED, "--editable", f"{ROOT}[train,ledger]"], check=True)
    own = sorted(path for path in Path(__file__).parent.glob("test_opacus*.py") if path != Path(__file__))
    found = subprocess.run([python, "-m", "pytest", "-p", "no:cacheprovider", *own], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    assert " passed" in found.stdout
    assert "skipped" not in found.stdout
