"""A model does not depend on the unit of its columns, if norms, ranges and l2 are stated in it too."""

import numpy as np
import pytest

import dplateau as dp

SOLVERS = {"noisy-sgd": 0.0, "adp-sgd": 0.0, "pnsgd": 0.0, "dp-sgld": 0.1, "snowball-sgd": 0.0, "phased-sgd": 0.0}
SOLVERS |= {"snowball-sgd-strong": 0.1, "phased-sgd-strong": 0.1, "phased-erm": 0.1, "reduction": 0.1}


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40], ids=["large", "small"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_model_in_another_unit(solver, unit):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3))
    labels = rows[:, 0] > 0

    def fitted(unit):
        options = {"epsilon": 1.0, "delta": 1e-6, "classes": [False, True], "fit_intercept": False, "insecure_seed": 3}
        options |= {"l2": SOLVERS[solver] * unit**2} if SOLVERS[solver] else {}
        model = dp.PrivateLogisticRegression(solver=solver, feature_norm=2 * unit, **options)
        return model.fit(rows * unit, labels).coef_ * unit

    # A phase's minimiser is found to a thousandth of what one record moves it, by another way.
    np.testing.assert_allclose(fitted(unit), fitted(1.0), rtol=1e-3 if solver == "phased-erm" else 1e-6)
