"""Packages whose names are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Mapping
from importlib import import_module
from typing import Any

from dplateau.spec.missing import explained


def loaded(
    package: str, homes: Mapping[str, tuple[str, ...]], star: Container[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package. It may have no module that is named like one of the names.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to tuple of str
        Modules of the package, and the names that each gives to it.
    star : container of str
        Those whose names ``from package import *`` loads, too.
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names}
    given = vars(sys.modules[package])

    def find(name: str) -> Any:
        if name == "__all__" and star:
            loads = {one for module, names in homes.items() if module in star for one in names}
            return sorted({one for one in given if not one.startswith("_")} | loads)
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with explained():
            given[name] = getattr(import_module(home[name]), name)
        return given[name]

    return find, lambda: sorted({*given, *home})
