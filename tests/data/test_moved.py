"""Names of the package that are elsewhere now."""

import pytest

from dplateau import data


@pytest.mark.parametrize("name", ["read_idx", "read_mnist", "read_cifar", "read_imdb", "read_movielens", "Ratings"])
def test_readers_that_moved_warn_and_work(name):
    papers = pytest.importorskip("dplateau_papers.readers")
    assert papers
    with pytest.warns(DeprecationWarning, match=rf"dplateau.data.{name} is dplateau_papers.readers.\w+.{name} now"):
        found = getattr(data, name)
    assert found.__name__ == name


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'read_everything'"):
        _ = data.read_everything
