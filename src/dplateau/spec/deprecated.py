"""Old names, which warn for one release."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from dplateau.spec.missing import explained


def moved(module: str, homes: Mapping[str, str], otherwise: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module with names that are elsewhere now: it warns, and gives what was asked for.

    Parameters
    ----------
    module : str
        The module's ``__name__``.
    homes : mapping of str to str
        Old names, and what each is now: ``"dplateau.certificate.DeclaredTraining"``.
    otherwise : callable, optional
        Gives the other names: what ``loaded`` returns.
    """

    def find(name: str) -> Any:
        if name not in homes and otherwise is not None:
            return otherwise(name)
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is {homes[name]} now.", DeprecationWarning, stacklevel=2)
        home, _, new = homes[name].rpartition(".")
        with explained():
            return getattr(import_module(home), new)

    return find
