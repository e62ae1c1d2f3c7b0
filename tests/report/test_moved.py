"""Names of the package that are elsewhere now."""

import pytest

from dplateau import certificate, files, report, spec

MOVED = {
    certificate: (
        *("Certificate", "DeclaredTraining", "make_certificate", "certificate_schema", "read_certificate", "verify", "Verdict"),
        *("Difference", "bound_to", "check_weights", "weights_digest"),
    ),
    files: ("new_folder", "write_file"),
    spec: ("ContradictionError",),
}


@pytest.mark.parametrize(("home", "name"), [(home, name) for home, names in MOVED.items() for name in names])
def test_what_moved_warns_and_works(home, name):
    with pytest.warns(DeprecationWarning, match=f"dplateau.report.{name} is {home.__name__}.{name} now"):
        assert getattr(report, name) is getattr(home, name)


def test_the_oldest_name_warns_and_others_are_none():
    with pytest.warns(DeprecationWarning, match="dplateau.report.Testimony is dplateau.certificate.DeclaredTraining now"):
        assert report.Testimony is certificate.DeclaredTraining
    with pytest.raises(AttributeError, match="no attribute 'Affidavit'"):
        _ = report.Affidavit
