import numpy as np
import pytest

SCHEMA = """
[columns.age]
type = "number"
low = 0
high = 100
[columns.colour]
type = "category"
values = ["red", "blue"]
[columns.ill]
type = "target"
classes = ["no", "yes"]
"""


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """A folder with a table of 2,000 rows, a test table, and their schema."""
    folder = tmp_path_factory.mktemp("table")
    random = np.random.default_rng(0)
    for name, n in (("rows", 2000), ("holdout", 500)):
        age, red = random.integers(0, 101, n), random.integers(0, 2, n)
        ill = (age + 20 * red + random.normal(0, 10, n)) > 60
        lines = [f"{a},{('blue', 'red')[r]},{('no', 'yes')[int(i)]}" for a, r, i in zip(age, red, ill, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["age,colour,ill", *lines]) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    return folder
