# pyright: basic
from __future__ import annotations

import pytest

import dplateau.algorithms as algorithms
import dplateau.analyses as analyses
import dplateau.spec as spec


def test_old_names_warn():
    for old, new in analyses._RENAMED.items():
        with pytest.warns(DeprecationWarning, match=new):
            assert getattr(analyses, old) is getattr(analyses, new)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = analyses.Nothing


def test_no_analysis_has_the_name_of_a_sampling_or_an_algorithm():
    names = {type(analysis).__name__.lower() for analysis in analyses.ANALYSES}
    others = {name.lower() for room in (algorithms, spec) for name in vars(room)}
    assert not names & others
