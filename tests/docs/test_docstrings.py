"""The examples in docstrings print what stands below them."""

import doctest
import importlib
import warnings
from pathlib import Path

import pytest

from dplateau.spec import AccuracyWarning

SOURCES = [Path(__file__).parents[2] / folder for folder in ("src", "papers/src")]
NEEDS = {"interchange/opacus.py": "torch", "interchange/opacus_noise.py": "opacus"}
WITH_EXAMPLES = [
    path.relative_to(source).as_posix()
    for source in SOURCES
    for path in sorted(source.rglob("*.py"))
    if "\n    >>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("file", WITH_EXAMPLES)
def test_examples_print_what_stands_below_them(file):
    for end, package in NEEDS.items():
        if file.endswith(end):
            pytest.importorskip(package)
    module = importlib.import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted
    assert not found.failed
