"""What many runs cost, and what seeds train, is what it was.

Values are those of one machine; others round otherwise in the last digits, and where an enclosure is wide, in more of them.
"""

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from dplateau import PrivacyWarning
from dplateau.spec import Run

HERE = Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("make_golden", HERE / "make_golden.py")
make_golden = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_golden)
RUNS = json.loads((HERE / "epsilons.json").read_text())
WEIGHTS = json.loads((HERE / "weights.json").read_text())
TRAININGS = dict(make_golden.trainings())


def test_there_are_runs_of_every_kind():
    assert len(RUNS) == 200
    assert len({one["run"]["sampling"]["kind"] for one in RUNS}) == 6
    assert sum(one["run"]["released"] == "last" for one in RUNS) > 60
    assert sum(isinstance(one["run"]["noise_multiplier"], list) for one in RUNS) > 10
    assert len({name for one in RUNS for name in one["bounds"]}) >= 15


@pytest.mark.parametrize("number", range(0, len(RUNS), 10))
def test_runs_cost_what_they_did(number):
    for one in RUNS[number : number + 10]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            found = make_golden.epsilons(Run.from_dict(one["run"]), one["delta"])
        assert found["certified"] == pytest.approx(one["certified"], rel=1e-8)
        assert found["mu"] == (None if one["mu"] is None else pytest.approx(one["mu"], rel=1e-8))
        assert found["bounds"].keys() == one["bounds"].keys()
        for name, (low, high) in one["bounds"].items():
            width = high - low if np.isfinite([low, high]).all() else 0.0
            lower, upper = found["bounds"][name]
            assert upper == pytest.approx(high, rel=1e-8, abs=width / 100), name
            # Rounding counts more in lower ends, and processors round differently.
            assert lower == pytest.approx(low, rel=1e-7, abs=width / 100), name


def test_every_training_has_golden_weights():
    assert TRAININGS.keys() == WEIGHTS.keys()


@pytest.mark.parametrize("name", WEIGHTS)
def test_seeds_train_what_they_did(name):
    # Processors sum single precision in different orders, and Adam divides by what is nearly 0: 3e-6 apart was seen.
    np.testing.assert_allclose(np.ravel(TRAININGS[name]()), WEIGHTS[name], rtol=1e-5 if "adam" in name else 1e-6, atol=1e-9)
