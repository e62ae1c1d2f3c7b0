"""Accounting needs few packages; what is missing for the rest is named, with what installs it."""

import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


@cache
def beyond(*extras):
    """Names of all packages here that an installation of dplateau with these extras does not bring."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    brought = {("dplateau",)}
    while wanted:
        one = Requirement(wanted.pop())
        key = (canonicalize_name(one.name), *sorted(one.extras))
        if key not in brought:
            brought.add(key)
            markers = [{"extra": extra} for extra in ("", *one.extras)]
            for needed in requires(one.name) or ():
                marker = Requirement(needed).marker
                if marker is None or any(map(marker.evaluate, markers)):
                    wanted.append(needed)
    names = {name for name, *_ in brought}
    return [name for name, found in packages_distributions().items() if names.isdisjoint(map(canonicalize_name, found))]


def python(code, missing=None):
    missing = beyond() if missing is None else missing
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing) + code], capture_output=True, text=True, timeout=120
    )


def command(*arguments, missing=None):
    return python(f"from dplateau.cli.main import run; run({list(arguments)!r})", missing)


RUN = ("--n", "1000", "--batch-size", "100", "--steps", "10")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("account", *RUN, "--noise-multiplier", "2", "--delta", "1e-5"),
        ("calibrate", *RUN, "--epsilon", "1", "--delta", "1e-5"),
        ("plot-trade-off", *RUN, "--noise-multiplier", "2", "--delta", "1e-5", "--json"),
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


@pytest.mark.parametrize(
    ("code", "package", "extra"),
    [
        ("import dplateau; dplateau.PrivateLogisticRegression", "sklearn", "train"),
        ("from dplateau.estimators import PrivateLogisticRegression", "sklearn", "train"),
        *((f"import dplateau.{room}", "jax", "train") for room in ("black_box", "losses", "networks", "planning", "training")),
        ("from dplateau.report import write_page", "markupsafe", "train"),
        *(
            (f"import dplateau.interchange.{module}", "torch", "opacus")
            for module in ("opacus", "opacus_ledger", "opacus_training")
        ),
        ("import dplateau.interchange.opacus_noise", "opacus", "opacus"),
        ("import dplateau.interchange.dp_events", "dp_accounting", "dp-accounting"),
        ("import dplateau.interchange.dp_accounting_accountant", "dp_accounting", "dp-accounting"),
    ],
)
def test_what_needs_more_names_the_extra(code, package, extra):
    done = python(code)
    assert done.returncode == 1
    said = f"ModuleNotFoundError: this needs {package}: python -m pip install '.[{extra}]', in a copy of dplateau's source.\n"
    assert done.stderr.endswith(said)


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
    done = command("--help", missing=[*beyond(), "scipy"])
    assert done.returncode == 0, done.stderr
    assert "account" in done.stdout


def test_a_star_import_gives_runs_and_loads_nothing_heavy():
    code = "import sys\nfrom dplateau import *\nprint(Run.__name__, Poisson.__name__, {'jax', 'scipy', 'rich'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split(maxsplit=2) == ["Run", "Poisson", "set()\n"]


def test_the_planner_and_a_ledger_need_their_extras_only(tmp_path):
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
    done = python(pages, beyond("ui", "ledger"))
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
