"""scikit-learn's own checks of an estimator.

The checks fit a few dozen rows and then ask for accuracy, which no privacy budget worth its name allows, so the instances have an
enormous epsilon; and they fit twice and compare, so the noise comes from a fixed seed. With a delta, ``partial_fit`` is there to be
checked. Norms and ranges are wide enough for the checks' data. No check is skipped or expected to fail.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dplateau.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression

NOISELESS = {"epsilon": 1e6, "delta": 1e-3, "insecure_seed": 0}


@pytest.mark.filterwarnings("ignore::dplateau.spec.errors.PrivacyWarning")
@parametrize_with_checks(
    [
        PrivateLogisticRegression(feature_norm=5.0, **NOISELESS),
        PrivateLinearSVC(feature_norm=5.0, **NOISELESS),
        PrivateLinearRegression(feature_norm=5.0, target_range=(-5.0, 5.0), **NOISELESS),
    ]
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)
