"""Accounting needs few packages; what is missing for the rest is named, with what installs it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

WITHOUT = """
import sys
import tomllib
from pathlib import Path
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
TRAINING = ["jax", "optax", "sklearn", "pyarrow", "cryptography", "jinja2", "plotly", "pandas", "matplotlib"]


def python(code, missing=TRAINING):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing) + code], capture_output=True, text=True, timeout=120
    )


def command(*arguments, missing=TRAINING):
    return python(f"from dplateau.cli.main import run; run({list(arguments)!r})", missing)


RUN = ("--n", "1000", "--batch-size", "100", "--steps", "10")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("account", *RUN, "--noise-multiplier", "2", "--delta", "1e-5"),
        ("calibrate", *RUN, "--epsilon", "1", "--delta", "1e-5"),
        ("audit", "--settings", "3"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_accounting_needs_numpy_and_scipy_only(arguments):
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_command_that_trains_names_the_extra():
    done = command("demo")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.endswith("python -m pip install '.[train]', in a copy of dplateau's source.\n")
    assert len(done.stderr.splitlines()) == 1


def test_a_name_that_trains_names_the_extra():
    done = python("import dplateau; dplateau.PrivateLogisticRegression")
    assert done.returncode == 1
    assert (
        "ModuleNotFoundError: this needs sklearn: python -m pip install '.[train]', in a copy of dplateau's source." in done.stderr
    )


@pytest.mark.parametrize("package", ["sqlalchemy", "alembic", "psycopg"])
def test_a_ledger_names_the_extra(package, tmp_path):
    create = ("--n", "1000", "--epsilon", "1", "--delta", "1e-5", "--ledger")
    url = "postgresql://nobody@/none" if package == "psycopg" else f"sqlite:///{tmp_path}/privacy.db"
    done = command("ledger", "create", "rows", *create, url, missing=[package])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"dplateau: this needs {package}: python -m pip install '.[ledger]', in a copy of dplateau's source.\n"
    made = python(f"import dplateau as dp; dp.Ledger({url!r}).create('a', n=1000, epsilon=1.0, delta=1e-5)", [package])
    assert (
        f"ModuleNotFoundError: this needs {package}: python -m pip install '.[ledger]', in a copy of dplateau's source."
        in made.stderr
    )


def test_other_missing_modules_are_told_as_they_are():
    done = python("from dplateau.spec.missing import explained\nwith explained():\n    import no_such_module")
    assert "No module named 'no_such_module'" in done.stderr


def test_names_that_moved_say_which_package_is_missing():
    old = "from dplateau.data import read_idx"
    assert (
        "this needs dplateau_papers: python -m pip install ./papers, in a copy of dplateau's source."
        in python(old, ["dplateau_papers"]).stderr
    )
    assert "No module named 'gzip'" in python(old, ["gzip"]).stderr


def test_weights_have_a_digest_without_jax():
    digest = "from dplateau.certificate import weights_digest\n"
    assert len(python(digest + "print(weights_digest({'w': [1.0, 2.0]}))").stdout) == 65
    assert "the weights hold a object: expected arrays" in python(digest + "weights_digest({'w': object()})").stderr


def test_a_run_needs_numpy_only():
    done = python("import dplateau as dp; dp.Run(n=9, sampling=dp.FullBatch(), steps=1, noise_multiplier=1.0)", ["scipy"])
    assert done.returncode == 0, done.stderr


def test_account_is_the_function_whatever_was_imported_before():
    done = python("import dplateau._account, dplateau as dp; print(callable(dp.account), callable(dp.compose))")
    assert done.stdout == "True True\n", done.stderr


def test_help_loads_neither_scipy_nor_what_reports():
    done = command("--help", missing=[*TRAINING, "scipy"])
    assert done.returncode == 0, done.stderr
    assert "account" in done.stdout


def test_a_star_import_gives_runs_and_loads_nothing_heavy():
    code = "import sys\nfrom dplateau import *\nprint(Run.__name__, Poisson.__name__, {'jax', 'scipy', 'rich'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split(maxsplit=2) == ["Run", "Poisson", "set()\n"]


def test_the_planner_and_a_ledger_need_their_extras_only(tmp_path):
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = {re.split(r"[\[<>=]", one)[0] for one in (*extras["ui"], *extras["ledger"])}
    missing = [package for package in (*TRAINING, "flint") if package not in named]
    pages = f"""
import dplateau as dp
from dplateau.report.pages import render
from dplateau.ui.answer import warm_up
from dplateau.ui.app import application, plotly
ledger = dp.Ledger("sqlite:///{tmp_path}/privacy.db")
ledger.create("a", n=1000, epsilon=1.0, delta=1e-5)
application(ledger)
warm_up()
print(len(plotly()) > 1000)
"""
    done = python(pages, missing)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
