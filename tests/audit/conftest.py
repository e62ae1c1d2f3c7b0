from typing import Any

import pytest

from dplateau.spec import FullBatch, Run


@pytest.fixture(scope="session")
def make():
    """Make a run on [-1, 1], full batch, replace, the last iterate released; with changes."""

    def call(**changes: Any) -> Run:
        fields: dict[str, Any] = {
            "n": 10,
            "sampling": FullBatch(),
            "steps": 5,
            "noise_multiplier": 2.0,
            "step_size": 0.5,
            "smoothness": 1.0,
            "strong_convexity": 0.0,
            "diameter": 2.0,
            "adjacency": "replace",
            "released": "last",
        }
        return Run(**{**fields, **changes})

    return call
