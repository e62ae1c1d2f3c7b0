"""What is said where a package is missing that only a part of the library needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

INSTALLS: Final = {
    **dict.fromkeys(("jax", "optax", "sklearn", "pyarrow", "cryptography", "jinja2", "markupsafe"), "'.[train]'"),
    **dict.fromkeys(("starlette", "uvicorn", "plotly"), "'.[ui]'"),
    **dict.fromkeys(("sqlalchemy", "alembic", "psycopg"), "'.[ledger]'"),
    "matplotlib": "'.[plots]'",
    "flint": "'.[verify]'",
    "dp_accounting": "'.[dp-accounting]'",
    **dict.fromkeys(("opacus", "torch"), "'.[opacus]'"),
    "dplateau_papers": "./papers",
}
"""Packages by the name of their import, and what installs them."""


def installing(what: str) -> str:
    """How to install a part of the library. It is on no package index, so that takes a copy of its source."""
    return f"python -m pip install {what}, in a copy of dplateau's source"


def remedy(missing: ModuleNotFoundError) -> str | None:
    """What installs the missing package; None where it is none of ours."""
    package = (missing.name or "").partition(".")[0]
    return f"this needs {package}: {installing(INSTALLS[package])}." if package in INSTALLS else None


@contextmanager
def explained() -> Iterator[None]:
    """Turns the error of a missing package into one that names the remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (said := remedy(error)) is None:
            raise
        raise ModuleNotFoundError(said, name=error.name) from None
