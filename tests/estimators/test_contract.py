"""What all estimators promise: certified runs, fresh noise, clear refusals, nothing secret kept."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dplateau._account import account
from dplateau.certificate import verify
from dplateau.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dplateau.spec import FullBatch, InputError
from dplateau.training import SecureGenerator

CLASSES = {"classes": [0, 1]}
ESTIMATORS = {
    PrivateLogisticRegression: CLASSES,
    PrivateLinearSVC: CLASSES,
    PrivateLinearRegression: {"target_range": (0, 1)},
}


@pytest.fixture(params=ESTIMATORS, ids=lambda estimator: estimator.__name__)
def make(request):
    return lambda *epsilon, **changes: request.param(*epsilon, **{**ESTIMATORS[request.param], "insecure_seed": 0, **changes})


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(2_000, 3))
    return X, (X[:, 0] > 0).astype(int)


def test_a_fit_is_certified(make, data):
    model = make(0.7, delta=1e-6, feature_norm=2.0, max_iter=50).fit(*data)
    assert 0.699 < model.epsilon_ <= 0.7
    assert model.epsilon_ == pytest.approx(account(model.run_, 1e-6).epsilon, rel=1e-7)
    assert model.epsilon_ >= account(model.run_, 1e-6).epsilon
    assert (model.run_.n, model.run_.sampling, model.run_.steps, model.n_iter_) == (2_000, FullBatch(), 50, 50)
    assert model.run_.clip_norm < 2.0


def test_the_certificate_says_what_the_fit_rests_on(make, data):
    model = make(0.7, delta=1e-6, insecure_seed=None).fit(*data)
    certificate = model.certificate_
    assert (certificate.run, certificate.epsilon, certificate.delta) == (model.run_, model.epsilon_, 1e-6)
    assert verify(certificate).agrees
    statements = {assumption.name: assumption.statement for assumption in certificate.assumptions}
    assert "clipped to norm 1" in statements["rows"]
    assert {"classes", "target"} & set(statements)


def test_a_fixed_seed_is_recorded_and_not_told(make, data):
    model = make(insecure_seed=987_654_321).fit(*data)
    assert model.certificate_.insecure_seed
    assert "987654321" not in model.certificate_.to_json()


def test_delta_is_by_default_far_below_one_over_n(make, data):
    model = make().fit(*data)
    assert 0.999 < account(model.run_, 1e-5).epsilon <= 1.0
    rng = np.random.default_rng(0)
    many = make().fit(rng.uniform(size=(20_000, 1)), rng.integers(0, 2, 20_000))
    assert 0.999 < account(many.run_, 1 / 200_000).epsilon <= 1.0


def test_replacing_a_row_needs_twice_the_noise(make, data):
    one, other = (make(adjacency=adjacency).fit(*data).run_ for adjacency in ("add-remove", "replace"))
    assert other.noise_multiplier == pytest.approx(2 * one.noise_multiplier)


def test_noise_is_fresh_unless_a_seed_is_given(make, data):
    def coefficients(seed):
        return make(insecure_seed=seed).fit(*data).coef_

    assert (coefficients(None) != coefficients(None)).all()
    assert (coefficients(3) == coefficients(3)).all()
    assert (coefficients(3) != coefficients(4)).all()


def test_more_budget_is_less_noise(make, data):
    spread = [np.std([make(epsilon, insecure_seed=s).fit(*data).coef_[..., 1] for s in range(5)]) for epsilon in (0.5, 50.0)]
    assert spread[0] > 3 * spread[1]


def test_a_pickle_keeps_the_model_and_no_record(make, data):
    X, y = data
    model = make(insecure_seed=None).fit(X, y)
    text = pickle.dumps(model)
    assert len(text) < 20_000  # the records take 48,000 bytes
    again = pickle.loads(text)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.run_ == model.run_
    assert not any(isinstance(value, SecureGenerator) for value in vars(model).values())


def test_scikit_learn_tools_work(make, data):
    X, y = data
    search = GridSearchCV(make_pipeline(FunctionTransformer(), make(5.0)), {"privatelinearregression__max_iter": [20, 40]}, cv=2)
    name = search.estimator.steps[1][0]
    search.set_params(param_grid={f"{name}__max_iter": [20, 40]}).fit(X, y)
    assert search.best_estimator_[1].run_.steps in (20, 40)
    copy = clone(make(0.3).fit(X, y))
    assert copy.get_params() == make(0.3).get_params()
    assert not hasattr(copy, "run_")


def test_tables_keep_their_column_names(make, data):
    X, y = data
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = make().fit(table, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["b", "a", "c"]])


@pytest.mark.parametrize(
    "changes",
    [
        *({name: value} for name in ("epsilon", "delta", "feature_norm") for value in (0.0, -1.0, np.nan, "one")),
        {"delta": 1.0},
        {"l2": -1.0},
        {"max_iter": 0},
        {"rows": "long"},
        {"solver": "sag"},
        {"adjacency": "edit"},
        {"dtype": "float16"},
        {"insecure_seed": -1},
        {"insecure_seed": "a"},
        {"fit_intercept": "no"},
        {"feature_norm": 1e-300},
        {"feature_norm": 1e300},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(make, data, changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        make(**changes).fit(*data)


def test_a_fit_that_is_refused_leaves_the_model_as_it_was(make, data):
    X, y = data
    model = make(delta=1e-6, max_iter=5).fit(X, y)
    before = model.predict(X[:5]).tolist()
    with pytest.raises(InputError):
        model.fit(np.ones((10, 7)), np.full(9, 5))
    assert (model.n_features_in_, model.predict(X[:5]).tolist()) == (3, before)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_refused(make, data, value):
    X, y = data
    X[7, 1] = value
    with pytest.raises(ValueError, match="Input X contains NaN or infinity in 1 of 2000 rows"):
        make().fit(X, y)
    fitted = make().fit(np.nan_to_num(X, posinf=0), y)
    with pytest.raises(ValueError, match="Input X contains NaN or infinity in 1 of 2000 rows"):
        fitted.predict(X)


def test_text_is_refused_without_being_quoted(make, data):
    X, y = data
    table = pd.DataFrame({"age": X[:, 0], "name": ["Ada Lovelace"] * len(X)})
    with pytest.raises(InputError, match="not numbers") as error:
        make().fit(table, y)
    assert "Lovelace" not in str(error.value)
    assert error.value.__suppress_context__


def test_sparse_rows_and_sample_weights_are_refused(make, data):
    X, y = data
    with pytest.raises(TypeError, match="dense"):
        make().fit(csr_array(X), y)
    with pytest.raises(TypeError, match="sample_weight"):
        make().fit(X, y, sample_weight=np.ones(len(X)))


def test_the_progress_bar_shows_no_number_of_the_data(make, data, capfd):
    make(verbose=True).fit(*data)
    assert capfd.readouterr().out == ""


def test_the_old_name_of_max_iter_warns(make, data) -> None:
    old = make(0.7, delta=1e-6, steps=3, insecure_seed=0)
    with pytest.warns(DeprecationWarning, match="max_iter"):
        old.fit(*data)
    assert old.n_iter_ == 3
    assert np.array_equal(old.coef_, make(0.7, delta=1e-6, max_iter=3, insecure_seed=0).fit(*data).coef_)
