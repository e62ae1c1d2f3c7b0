"""Conditions that several theorems share."""

from __future__ import annotations

from dplateau.spec import InputError
from dplateau.spec.arguments import real


def check_contraction(step_size: float, smoothness: float | None) -> None:
    """Raise unless steps of ``step_size`` on ``smoothness``-smooth convex losses bring no two iterates further apart."""
    if smoothness is not None and step_size * real("smoothness", smoothness) > 2:
        raise InputError(
            f"the theorem's step size {step_size:g} exceeds 2/smoothness = {2 / smoothness:g}: its steps are not contractions, so "
            "its batch sizes and its noise do not protect a record. Take more records or steps, or smoother losses."
        )
