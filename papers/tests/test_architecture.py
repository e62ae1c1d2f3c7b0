from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def test_no_files_import_each_other(circle):
    assert circle(SOURCE) == []
