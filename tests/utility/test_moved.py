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


@pytest.mark.parametrize(("missing", "error"), [("dplateau_papers", AttributeError), ("numpy.nothing", ModuleNotFoundError)])
def test_what_is_missing_is_told(monkeypatch, missing, error):
    def refused(name):
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr(dplateau.utility, "import_module", refused)
    with pytest.raises(error, match="dplateau-papers" if error is AttributeError else "nothing"):
        _ = dplateau.utility.phased_sgd_risk
