"""What every kind of estimator is certified with: a file that fits its schema, is confirmed, and tells nothing of the rows."""

import json
import re

import jsonschema
import numpy as np
import pytest

from dplateau.certificate import Certificate, certificate_schema, verify
from dplateau.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression

N = 500
KINDS = {
    "logistic": (PrivateLogisticRegression, {"classes": [0, 1]}),
    "softmax": (PrivateLogisticRegression, {"classes": [0, 1, 2]}),
    "svc": (PrivateLinearSVC, {"classes": [0, 1]}),
    "one versus rest": (PrivateLinearSVC, {"classes": [0, 1, 2]}),
    "squared": (PrivateLinearRegression, {"target_range": (-10.0, 10.0)}),
    "huber": (PrivateLinearRegression, {"target_range": (-10.0, 10.0), "loss": "huber"}),
}


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    kind, arguments = KINDS[request.param]
    random = np.random.default_rng(3)
    X = random.normal(size=(N, 4))
    y = random.integers(0, len(arguments["classes"]), N) if "classes" in arguments else 7 * np.tanh(X[:, 0])
    return X, y, kind(epsilon=1.0, delta=1e-4, adjacency="replace", max_iter=20, **arguments).fit(X, y)


def test_it_fits_the_schema_and_is_confirmed(fitted):
    certificate = fitted[2].certificate_
    jsonschema.Draft202012Validator(certificate_schema()).validate(json.loads(certificate.to_json()))
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert verify(again).certifies
    assert (again.run.n, again.run.steps, again.run.adjacency, again.delta) == (N, 20, "replace", 1e-4)
    assert again.epsilon <= 1.0


def test_it_tells_nothing_of_the_rows(fitted):
    """No number of the data or of the model is in it, not even rounded to eight digits."""
    X, y, model = fitted
    text = model.certificate_.to_json()
    told = {f"{abs(float(number)):.8g}" for number in re.findall(r"\d+\.\d+(?:e-?\d+)?", text)}
    private = np.concatenate([X.ravel(), y[y != np.round(y)], X.mean(axis=0), np.linalg.norm(X, axis=1), np.ravel(model.coef_)])
    assert not told & {f"{abs(value):.8g}" for value in private}
