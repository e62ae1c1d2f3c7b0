"""Every contract on ten draws each; ``experiments/contracts.py`` makes ten thousand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dplateau.accounting import Enclosure, GaussianDP
from dplateau.analyses import ANALYSES, Analysis

from . import draws, properties
from .properties import PROPERTIES

DRAWS = 10
SEED = 1


@pytest.mark.parametrize("place", range(len(PROPERTIES)), ids=[one.__name__ for one in PROPERTIES])
def test_contract(place: int) -> None:
    for index in range(place, DRAWS * len(PROPERTIES), len(PROPERTIES)):
        _, outcome = properties.check(SEED, index)
        assert not outcome.violated, (index, outcome)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_every_analysis_is_drawn_and_reads_more_noise_as_less_privacy_loss(analysis: Analysis) -> None:
    subject = draws.analysed(np.random.default_rng(3), lambda one: one is analysis)
    less, more = (subject.change(noise, 1.0, 1.0) for noise in (1.5, 1.0))
    assert less is not None
    assert more is not None
    assert less.epsilon(1e-6).upper <= more.epsilon(1e-6).upper * (1 + 2e-2)


class _Bad(GaussianDP):
    """mu-GDP with a mistake."""

    mistake: Callable[[Enclosure], Enclosure]

    def epsilon(self, delta: float) -> Enclosure:
        return self.mistake(super().epsilon(delta))


@pytest.mark.parametrize(
    ("check", "mistake"),
    [
        (properties.there_and_back, lambda one: Enclosure(0.9 * one.lower, 0.9 * one.upper)),
        (properties.falls_with_noise, lambda one: Enclosure(1 / (one.lower + 1), 1 / (one.lower + 1))),
        (properties.falls_with_delta, lambda one: Enclosure(1 / (one.lower + 1), 1 / (one.lower + 1))),
    ],
    ids=["gains", "noise", "delta"],
)
def test_a_mistake_is_found(check: Any, mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that cannot fail is none: guarantees with a mistake break their contract."""

    def bad(random: np.random.Generator) -> draws.Subject:
        kind = type("Bad", (_Bad,), {"mistake": staticmethod(mistake)})
        return draws.Subject("bad", "", lambda noise, steps, rate: kind(random_mu / noise))

    random_mu = 1.3
    monkeypatch.setattr(draws, "subject", bad)
    assert any((found := check(np.random.default_rng(i))) is not None and found.violated for i in range(5))
