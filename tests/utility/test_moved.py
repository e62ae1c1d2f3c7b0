"""Theorems that only papers use are in dplateau-papers now."""

import pytest

import dplateau.utility


def test_old_names_warn():
    with pytest.warns(DeprecationWarning, match=r"has moved to dplateau_papers\.utility"):
        from dplateau.utility import phased_sgd_risk
    assert phased_sgd_risk.__module__ == "dplateau_papers.utility.phased_sgd"


def test_there_is_no_such_theorem():
    with pytest.raises(AttributeError, match="no attribute 'fermat'"):
        _ = dplateau.utility.fermat
