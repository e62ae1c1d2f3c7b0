# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import ast
import inspect
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("module", ["dplateau", "dplateau._account", "dplateau.analyses", "dplateau.accounting", "dplateau.spec"])
def test_accounting_loads_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "heavy = {'jax', 'jaxlib', 'sklearn', 'pyarrow', 'typer', 'rich', 'pandas', 'cryptography'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_public_names() -> None:
    import dplateau as dp

    assert {"Run", "account", "calibrate", "Poisson", "PrivateLogisticRegression"} <= set(dir(dp))
    with pytest.raises(AttributeError, match="no attribute 'privacy'"):
        _ = dp.privacy


@pytest.mark.parametrize("package", ["dplateau", "dplateau.algorithms", "dplateau.ledger", "dplateau.report"])
def test_names_loaded_late_are_those_that_types_are_checked_with(package: str) -> None:
    """They are written down twice; and a module of a name's name would take its place."""
    here = import_module(package)
    file = Path(here.__file__)
    block = next(one for one in ast.parse(file.read_text()).body if isinstance(one, ast.If))
    listed = {alias.name: one.module for one in block.body for alias in one.names}
    late = inspect.getclosurevars(getattr(here, "_find", here.__getattr__)).nonlocals["home"]
    assert late == listed
    assert all(getattr(here, name) is getattr(import_module(module), name) for name, module in listed.items())
    assert not [name for name in listed if (file.parent / f"{name}.py").exists() or (file.parent / name).exists()]


def test_layers() -> None:
    tool = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or shutil.which("lint-imports")
    if tool is None:
        pytest.skip("import-linter is not installed")
    found = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def test_files_are_short() -> None:
    long = {
        str(file.relative_to(ROOT)): lines
        for room in ("src", "papers/src")
        for file in (ROOT / room).rglob("*.py")
        if (lines := len(file.read_text().splitlines())) > 400
    }
    assert not long


def test_no_files_import_each_other(circle) -> None:
    assert circle(ROOT / "src") == []


def test_a_circle_is_found(circle, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("if TYPE_CHECKING:\n    from b import B\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "__init__.py").write_text("from b import c\nfrom elsewhere import d\n")
    (tmp_path / "b" / "c.py").write_text("")
    assert circle(tmp_path) == []
    (tmp_path / "b" / "c.py").write_text("def lazily():\n    import a\n")
    assert set(circle(tmp_path)) == {"a", "b", "b.c"}


def test_slow_tests_are_there() -> None:
    """A test that got another name would be taken for a quick one."""
    names = (ROOT / "tests" / "slow.txt").read_text().split()
    assert names == sorted(set(names))
    bodies = {file: ast.parse((ROOT / file).read_text()).body for file in {name.split("::")[0] for name in names}}
    for name in names:
        file, *parts = name.split("::")
        body: list[ast.stmt] = bodies[file]
        for part in parts:
            (found,) = (node for node in body if getattr(node, "name", None) == part)
            body = found.body


@pytest.mark.parametrize(("which", "said"), [("quick", "1 passed, 2 deselected"), ("slow", "2 passed, 1 deselected")])
def test_every_test_is_quick_or_slow(tmp_path: Path, which: str, said: str) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "slow.txt").write_text("tests/test_it.py::test_a\n")
    many = "import pytest\n@pytest.mark.parametrize('x', [1, 2])\ndef test_a(x): pass\ndef test_b(): pass\n"
    (tmp_path / "tests" / "test_it.py").write_text(many)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tests", which]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said in found.stdout, found.stdout + found.stderr
