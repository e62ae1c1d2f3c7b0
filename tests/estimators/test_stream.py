"""``fit_stream`` is ``fit`` in one pass, or random allocation, whatever the blocks; ``partial_fit`` costs what one batch costs."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from dplateau import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, account
from dplateau.algorithms import NoisySGD
from dplateau.certificate import verify
from dplateau.data import array_stream, block_stream, open_stream, schema_from_toml, schema_to_toml
from dplateau.estimators.base import PrivateLinearModel
from dplateau.estimators.table_model import TableModel, load_model
from dplateau.spec import InputError, RandomAllocation
from dplateau.training import Cluster, SecureGenerator, TrainingInterrupted

N, D = 3_000, 4
SCHEMA = """
[columns.a]
type = "number"
low = -1
high = 1
unknown = false
[columns.b]
type = "number"
low = -1
high = 1
unknown = false
[columns.t]
type = "target"
"""
TARGETS = {"logistic": 'classes = ["no", "yes"]', "svc": 'classes = ["no", "yes"]', "linear": "low = -3\nhigh = 3"}
KINDS = {
    "logistic": PrivateLogisticRegression(classes=[0, 1]),
    "softmax": PrivateLogisticRegression(classes=["p", "q", "r"]),
    "svc": PrivateLinearSVC(classes=[0, 1]),
    "squared": PrivateLinearRegression(target_range=(-1, 2)),
    "huber": PrivateLinearRegression(target_range=(-1, 2), loss="huber"),
}
COMMON = {"epsilon": 2.0, "delta": 1e-6, "solver": "pnsgd", "feature_norm": 2.0}


def make(kind, **changes):
    return clone(KINDS[kind]).set_params(**{**COMMON, "insecure_seed": 3, **changes})


def rows_and_target(kind, n=N, seed=0, dtype=np.float64):
    """Rows of norms around 2, of which some are clipped, and a target that depends on the first column."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, D)).astype(dtype)
    score = rows[:, 0] + 0.3 * random.normal(size=n)
    if kind in ("squared", "huber"):
        return rows, score
    return rows, np.array(["p", "q", "r"])[np.digitize(score, [-0.5, 0.5])] if kind == "softmax" else (score > 0).astype(int)


def stream_of(kind, rows, target, block_rows):
    """A stream; those of arrays have numbers as targets only, so that of names is the reader's own."""
    if kind != "softmax":
        return array_stream(rows, target, block_rows=block_rows)
    pieces = range(0, len(rows), block_rows)
    plain = array_stream(rows, np.zeros(len(rows)))
    return replace(plain, source=lambda: ((rows[i : i + block_rows], target[i : i + block_rows]) for i in pieces))


class Blocks:
    """The least that a stream of one's own needs."""

    order = "by the day of arrival"

    def __init__(self, pieces, n, d):
        self.pieces, self.n, self.d = pieces, n, d

    def blocks(self):
        return iter(self.pieces)


def state(model):
    return model.coef_, model.intercept_, model.run_, model.epsilon_


def same(one, other):
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in zip(state(one), state(other), strict=True))


# --- one pass -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_gives_what_the_rows_at_once_give(kind):
    rows, target = rows_and_target(kind)
    whole = make(kind).fit(rows, target)
    assert whole.run_.sampling.kind == "one-pass"
    for block_rows in (N, 7, 1_000):
        streamed = make(kind).fit_stream(stream_of(kind, rows, target, block_rows))
        assert same(streamed, whole), block_rows
        assert streamed.n_features_in_ == D
        assert (streamed.predict(rows) == whole.predict(rows)).all()
    assert not same(make(kind, insecure_seed=4).fit_stream(stream_of(kind, rows, target, N)), whole)
    assert not same(make(kind).fit_stream(stream_of(kind, rows[::-1], target[::-1], N)), whole)  # the order counts


@pytest.mark.parametrize("changes", [{"rows": "unit"}, {"adjacency": "replace"}, {"l2": 0.01}], ids=str)
def test_so_it_does_with_other_options(changes):
    rows, target = rows_and_target("logistic", 1_000, dtype=np.float32)
    whole = make("logistic", **changes).fit(rows, target)
    for block_rows in (1, 13):
        assert same(make("logistic", **changes).fit_stream(array_stream(rows, target, block_rows=block_rows)), whole)


def test_so_it_does_where_the_loop_takes_several_blocks():
    random = np.random.default_rng(0)
    rows = random.standard_normal((1_500, 3_000), dtype=np.float32)
    target = (rows[:, 0] > 0).astype(int)
    whole = make("logistic").fit(rows, target)
    for block_rows in (300, 1_500):  # the loop takes 698 rows of this width at a time
        assert same(make("logistic").fit_stream(array_stream(rows, target, block_rows=block_rows)), whole)


def test_snowballs_stream_as_well():
    rows, target = rows_and_target("logistic")
    whole = make("logistic", solver="snowball-sgd").fit(rows, target)
    assert whole.run_.sampling.batch_size[0] < whole.run_.sampling.batch_size[-1]
    assert same(make("logistic", solver="snowball-sgd").fit_stream(array_stream(rows, target, block_rows=100)), whole)


def test_auto_takes_one_pass():
    rows, target = rows_and_target("logistic")
    stream = array_stream(rows, target, block_rows=500)
    assert same(make("logistic", solver="auto").fit_stream(stream), make("logistic").fit(rows, target))


def test_it_learns():
    rows, target = rows_and_target("logistic", 30_000)
    model = make("logistic", insecure_seed=None).fit_stream(array_stream(rows, target))
    assert model.score(*rows_and_target("logistic", 5_000, seed=1)) > 0.85


def test_the_certificate_says_how_the_rows_were_ordered():
    rows, target = rows_and_target("logistic")
    model = make("logistic", insecure_seed=None).fit_stream(Blocks([(rows[:10], target[:10]), (rows[10:], target[10:])], N, D))
    declared = {a.name: a.statement for a in model.certificate_.assumptions if a.how == "declared"}
    assert declared["order"].endswith("(by the day of arrival)")
    assert "2 classes" in declared["classes"]
    enforced = {a.name for a in model.certificate_.assumptions if a.how == "enforced"}
    assert {"rows", "clipping"} <= enforced
    assert verify(model.certificate_).certifies
    assert 1.99 < model.epsilon_ <= 2
    given = make("logistic").fit_stream(array_stream(rows, target)).certificate_
    assert "chosen without looking" in {a.name: a.statement for a in given.assumptions}["order"]


def test_delta_follows_from_the_declared_number():
    rows, target = rows_and_target("logistic", 20_000)
    for n, delta in ((1_000, 1e-5), (20_000, 1 / 200_000)):
        assert make("logistic", delta=None).fit_stream(array_stream(rows[:n], target[:n])).certificate_.delta == delta


def with_bad(rows, target, place, entry):
    rows = rows.copy()
    rows[place, 1] = entry
    return rows, target


ROWS, LABELS = rows_and_target("logistic")
LATE = LABELS.copy()
LATE[-2] = 2
NUMBERS = rows_and_target("huber")[1]
MISSING = np.where(np.arange(N) == N - 2, np.nan, NUMBERS)
PARTS = [(ROWS[:2_000], LABELS[:2_000]), (ROWS[2_000:], LABELS[2_000:])]
REFUSED = {
    "ends early": ("logistic", lambda: block_stream(PARTS, N + 1, D), "ends after 3000 of the declared 3001"),
    "too many": ("logistic", lambda: block_stream(PARTS, N - 1, D), "more than the declared 2999 rows"),
    "ends early, own": ("logistic", lambda: Blocks(PARTS, N + 1, D), "end after 3,000 rows but the run has n = 3,001"),
    "too many, own": ("logistic", lambda: Blocks(PARTS, N - 1, D), "more records than n = 2,999"),
    "empty": ("logistic", lambda: Blocks([], N, D), "no records"),
    "NaN": ("logistic", lambda: array_stream(*with_bad(ROWS, LABELS, -2, np.nan)), "1 rows are NaN"),
    "NaN, own": ("logistic", lambda: Blocks([with_bad(ROWS, LABELS, -2, np.nan)], N, D), "1 of 3000 rows contain NaN"),
    "infinite, own": ("logistic", lambda: Blocks([with_bad(ROWS, LABELS, -2, np.inf)], N, D), "1 of 3000 rows contain NaN"),
    "late class": ("logistic", lambda: array_stream(ROWS, LATE, block_rows=500), "1 of 500 rows have a class that is not"),
    "NaN class, own": ("logistic", lambda: Blocks([(ROWS, np.where(LATE > 1, np.nan, LABELS))], N, D), "not among the declared"),
    "NaN target": ("huber", lambda: array_stream(ROWS, MISSING, block_rows=500), "1 rows are NaN"),
    "NaN target, own": ("huber", lambda: Blocks([(ROWS, MISSING)], N, D), "1 targets of a block are not finite"),
    "another width": (
        "logistic",
        lambda: Blocks([*PARTS[:1], (ROWS[2_000:, :3], LABELS[2_000:])], N, D),
        "a block has 3 features, and",
    ),
    "another width than said": ("logistic", lambda: Blocks(PARTS, N, D + 1), "a block has 4 features, and the stream says 5"),
    "no target": ("logistic", lambda: Blocks([*PARTS[:1], (ROWS[2_000:],)], N, D), "is not \\(features, target\\)"),
    "no block": ("huber", lambda: Blocks([None], N, D), "is not \\(features, target\\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_late_in_a_stream_releases_nothing(name):
    kind, stream, message = REFUSED[name]
    model = make(kind, rows="unit")  # scaling to a norm could make an infinite entry a finite one
    with pytest.raises(InputError, match=message):
        model.fit_stream(stream())
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


@pytest.mark.parametrize("solver", ["adp-sgd", "phased-sgd", "phased-erm"])
def test_solvers_that_need_all_rows_are_refused(solver):
    with pytest.raises(
        InputError, match=f"'{solver}' for Logistic loss needs all records in memory: for a stream use auto, noisy-sgd"
    ):
        make("logistic", solver=solver).fit_stream(array_stream(ROWS, LABELS))


def test_a_loss_that_is_not_smooth_is_refused():
    with pytest.raises(InputError, match=r"'phased-erm' for Absolute loss needs all .* and a smooth loss"):
        PrivateLinearRegression(target_range=(-1, 2), loss="absolute").fit_stream(array_stream(ROWS, NUMBERS))


def test_rows_are_clipped_that_the_caller_says_are_short():
    rows, target = rows_and_target("logistic")
    bare, said = (
        make("logistic", fit_intercept=False, feature_norm=0.5).fit_stream(array_stream(4 * rows, target, feature_norm=norm)).coef_
        for norm in (None, 0.5)
    )
    np.testing.assert_array_equal(said, bare)


@pytest.mark.parametrize("cluster", [None, Cluster()])
def test_a_path_is_no_stream(cluster):
    with pytest.raises(InputError, match="the stream is of type str: expected what open_stream"):
        PrivateLogisticRegression(classes=[0, 1]).fit_stream("folder", cluster=cluster)


def test_classes_must_be_declared():
    with pytest.raises(InputError, match="fit_stream does not see all rows"):
        PrivateLogisticRegression().fit_stream(array_stream(ROWS, LABELS))


def test_an_interrupt_releases_nothing():
    """As from the keyboard, where a block is read."""

    def late():
        yield from (PARTS[0], PARTS[1])
        raise KeyboardInterrupt

    model = make("logistic")
    with pytest.raises(TrainingInterrupted) as caught:
        model.fit_stream(block_stream(late, N + 1, D))
    assert caught.value.__context__ is None  # nothing leads to the frames that hold the weights
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


def test_the_names_of_an_earlier_table_are_forgotten():
    pandas = pytest.importorskip("pandas")
    model = make("logistic").fit(pandas.DataFrame(ROWS, columns=list("abcd")), LABELS)
    assert list(model.feature_names_in_) == list("abcd")
    model.fit_stream(array_stream(ROWS[:, :3], LABELS))
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(ROWS[:, :3]).shape == (N,)


# --- random allocation ----------------------------------------------------------------------------------------------------------

SEVERAL = {"solver": "noisy-sgd", "max_iter": 25}  # batches of 1,200, three an epoch, 8 epochs and a third


class Quiet(SecureGenerator):
    """Draws batches from a seed of its own, and no noise, so that how steps are gathered makes no difference."""

    def __init__(self):
        super().__init__(insecure_seed=0)
        self.draws = np.random.default_rng(0)

    def integers(self, high, shape):
        return self.draws.integers(0, high, shape)

    def normal(self, shape):
        return np.zeros(shape)


def in_memory(plan, read, **options):
    """``fit`` in the place of ``fit_stream``."""
    features, target = (np.concatenate(part) for part in zip(*read(), strict=True))
    return plan.fit(features, target, **options)


@pytest.mark.parametrize(
    ("kind", "changes"), [("logistic", {}), ("softmax", {"l2": 0.01, "dtype": "float64"}), ("huber", {"rows": "unit"})]
)
def test_steps_on_a_stream_are_those_in_memory(kind, changes, monkeypatch):
    rows, target = rows_and_target(kind)
    monkeypatch.setattr(PrivateLinearModel, "_generator", lambda self, number=0: Quiet())
    found = [make(kind, **SEVERAL, **changes).fit_stream(stream_of(kind, rows, target, size)) for size in (N, 701)]
    monkeypatch.setattr("dplateau.training.stream.BYTES", 1)  # one batch at a time
    found.append(make(kind, **SEVERAL, **changes).fit_stream(stream_of(kind, rows, target, 1_000)))
    monkeypatch.setattr(NoisySGD, "fit_stream", in_memory)
    whole = make(kind, **SEVERAL, **changes).fit_stream(stream_of(kind, rows, target, N))
    assert (whole.run_.sampling, whole.n_iter_) == (RandomAllocation(N * 10 / 25), 25)
    assert np.any(whole.coef_)
    assert all(same(one, whole) for one in found)


def test_with_noise_it_learns_and_is_certified():
    rows, target = rows_and_target("logistic", 30_000)
    model = make("logistic", solver="noisy-sgd", insecure_seed=None).fit_stream(array_stream(rows, target, block_rows=9_000))
    assert model.score(*rows_and_target("logistic", 5_000, seed=1)) > 0.85
    assert model.run_.sampling == RandomAllocation(750)
    assert verify(model.certificate_).certifies
    assert 1.999 < account(model.run_, 1e-6).epsilon <= 2


def test_the_seed_decides_and_blocks_do_not():
    rows, target = rows_and_target("logistic")
    one, other = (make("logistic", **SEVERAL).fit_stream(array_stream(rows, target, block_rows=size)) for size in (N, 77))
    assert same(one, other)
    assert not same(one, make("logistic", **SEVERAL, insecure_seed=4).fit_stream(array_stream(rows, target)))


def test_the_certificate_says_nothing_of_an_order_as_batches_are_drawn():
    rows, target = rows_and_target("logistic")
    of = {
        seed: {a.name: a.how for a in make("logistic", **SEVERAL, insecure_seed=seed).fit_stream(stream).certificate_.assumptions}
        for stream in [Blocks([(rows, target)], N, D)]
        for seed in (None, 3)
    }
    fitted = make("logistic", solver="noisy-sgd", max_iter=25, insecure_seed=None).fit(rows, target).certificate_
    assert of[None] == {a.name: a.how for a in fitted.assumptions}
    assert "order" not in of[None]
    assert of[None]["rows"] == of[None]["sampling"] == "enforced"
    assert of[3]["sampling"] == "declared"


def test_auto_takes_several_passes_where_one_cannot_be_certified():
    random = np.random.default_rng(0)
    rows, target = random.normal(size=(2_000, 200)), random.integers(0, 60, 2_000)
    model = PrivateLogisticRegression(8.0, delta=1e-6, classes=range(60), max_iter=10).fit_stream(array_stream(rows, target))
    assert model.run_.sampling.kind == "random-allocation"


AGAIN = {"ends early, own": "there are 3,000 records but the run has n = 3,001"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_with_a_stream_releases_nothing_in_several_passes_either(name):
    kind, stream, message = REFUSED[name]
    model = make(kind, rows="unit", **SEVERAL)
    with pytest.raises(InputError, match=AGAIN.get(name, message)):
        model.fit_stream(stream())
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


def changing(second):
    """A source whose first complete reading is the rows, and the next is ``second``."""
    readings = iter([PARTS, PARTS, second])
    return block_stream(lambda: next(readings), N, D)


def interrupted():
    yield PARTS[0]
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("stream", "error", "message"),
    [
        (lambda: block_stream(iter(PARTS), N, D), InputError, "read before: pass a list or a callable"),
        (lambda: changing(PARTS[::-1]), InputError, "two readings of the records differ"),
        (lambda: changing([PARTS[0], (PARTS[1][0], 1 - PARTS[1][1])]), InputError, "two readings of the records differ"),
        (lambda: changing(PARTS[:1]), InputError, "ends after 2000 of the declared 3000"),
        (lambda: changing(interrupted()), TrainingInterrupted, "interrupted"),
    ],
    ids=["one reading", "order", "a target", "fewer", "keyboard"],
)
def test_every_reading_must_be_whole_and_the_same(stream, error, message):
    model = make("logistic", **SEVERAL)
    with pytest.raises(error, match=message) as caught:
        model.fit_stream(stream())
    assert error is InputError or caught.value.__context__ is None
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


# --- files ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=TARGETS)
def files(request, tmp_path_factory):
    """The name of a model, its schema, and the same 2,000 rows as CSV and as Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp(request.param)
    random = np.random.default_rng(2)
    a, b = random.uniform(-1, 1, (2, 2_000)).astype(np.float32)
    target = 2 * a + b if request.param == "linear" else np.array(["no", "yes"])[(a > 0).astype(int)]
    texts = zip(a.tolist(), b.tolist(), target.tolist(), strict=True)
    (folder / "rows.csv").write_text("a,b,t\n" + "".join(f"{x!r},{y!r},{t}\n" for x, y, t in texts))
    parquet.write_table(pa.table({"a": a, "b": b, "t": target}), folder / "rows.parquet", row_group_size=300)
    return request.param, schema_from_toml(SCHEMA + TARGETS[request.param]), folder


def test_a_table_in_pieces_gives_what_it_gives_at_once(files, tmp_path):
    kind, schema, folder = files
    options = {"model": kind, "epsilon": 2.0, "delta": 1e-6, "insecure_seed": 1, "solver": "pnsgd"}
    whole = TableModel.train(folder / "rows.csv", schema, **options)
    csv, parquet = (TableModel.train(folder / name, schema, **options, stream=True) for name in ("rows.csv", "rows.parquet"))
    declared = TableModel.train(folder / "rows.csv", schema, **options, stream=True, n=2_000)
    assert same(csv.estimator, whole.estimator)
    assert same(parquet.estimator, whole.estimator)
    assert same(declared.estimator, whole.estimator)
    several = [TableModel.train(folder / f"rows.{end}", schema, **options | SEVERAL, stream=True) for end in ("csv", "parquet")]
    assert same(several[0].estimator, several[1].estimator)
    assert several[0].certificate.run.sampling.kind == "random-allocation"
    assert "schema" in {assumption.name for assumption in several[0].certificate.assumptions}
    parquet.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.certificate == parquet.certificate
    assert "order" in {assumption.name for assumption in again.certificate.assumptions}
    assert (again.predict(folder / "rows.csv") == parquet.predict(folder / "rows.csv")).all()


def test_the_order_of_a_file_is_in_the_certificate(files):
    kind, schema, folder = files
    options = {"order": "random", "order_seed": 5, "intercept": 1.0 if schema.target.classes else 0.0}
    stream = open_stream(folder / "rows.parquet", schema_to_toml_file(schema, folder), **options)
    model = {
        "logistic": PrivateLogisticRegression(classes=[0, 1], fit_intercept=False),
        "svc": PrivateLinearSVC(classes=[0, 1], fit_intercept=False),
        "linear": PrivateLinearRegression(target_range=(-3, 3)),
    }[kind]
    certificate = model.fit_stream(stream).certificate_
    assert "public seed 5" in {a.name: a.statement for a in certificate.assumptions}["order"]
    assert verify(certificate).certifies


def schema_to_toml_file(schema, folder):
    path = folder / "schema.toml"
    path.write_text(schema_to_toml(schema))
    return path


def test_a_declared_number_of_rows_is_checked_without_a_stream_too(files):
    kind, schema, folder = files
    with pytest.raises(InputError, match="rows where n = 3 is declared: declare its true number, or repair it"):
        TableModel.train(folder / "rows.csv", schema, model=kind, epsilon=1.0, n=3)


# --- batches --------------------------------------------------------------------------------------------------------------------


def batches(kind, count, size=400):
    rows, target = rows_and_target(kind, count * size, seed=7)
    return [(rows[i : i + size], target[i : i + size]) for i in range(0, count * size, size)]


def taught(kind, count, **changes):
    model = make(kind, **changes)
    for rows, target in batches(kind, count):
        model.partial_fit(rows, target)
    return model


@pytest.mark.parametrize("kind", ["logistic", "softmax", "huber"])
def test_many_batches_cost_what_one_batch_costs(kind):
    models = {count: taught(kind, count, insecure_seed=None) for count in (1, 5)}
    assert models[1].epsilon_ == models[5].epsilon_
    assert 1.999 < models[5].epsilon_ <= 2
    for count, model in models.items():
        run = model.run_
        assert (run.steps, run.n, run.released) == (count, 400 * count, "all")
        assert model.n_iter_ == count
        assert verify(model.certificate_).certifies
        assert "no record was in more than one batch" in [a.statement for a in model.certificate_.assumptions]


def test_batches_teach():
    rows, target = rows_and_target("logistic", 60_000)
    model = make("logistic", insecure_seed=None)
    for i in range(0, 60_000, 2_000):  # 30 batches
        model.partial_fit(rows[i : i + 2_000], target[i : i + 2_000])
    assert model.score(*rows_and_target("logistic", 5_000, seed=1)) > 0.85


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"delta": None}, "partial_fit needs delta"),
        ({"solver": "noisy-sgd"}, "not with solver 'noisy-sgd'"),
        ({"solver": "snowball-sgd"}, "not with solver 'snowball-sgd'"),
        ({"l2": 0.1}, "without l2"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["logistic", "svc", "huber"])
def test_it_is_there_only_where_it_is_sound(kind, changes, reason):
    assert hasattr(make(kind), "partial_fit")
    model = make(kind, **changes)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as caught:
        model.partial_fit  # noqa: B018
    assert reason in str(caught.value.__cause__ or caught.value)


@pytest.mark.parametrize("kind", ["logistic", "softmax", "huber"])
def test_a_model_that_was_pickled_goes_on_as_if_it_had_not_been(kind):
    model = make(kind)
    for rows, target in batches(kind, 4):
        model = pickle.loads(pickle.dumps(model.partial_fit(rows, target)))
    assert same(model, taught(kind, 4))
    assert not same(model, taught(kind, 3))


def test_a_pickle_without_a_seed_draws_new_noise():
    model = taught("logistic", 2, insecure_seed=None)
    twins = [pickle.loads(pickle.dumps(model)).partial_fit(*batches("logistic", 3)[2]) for _ in range(2)]
    assert not (twins[0].coef_ == twins[1].coef_).any()


def test_a_fit_starts_anew():
    rows, target = rows_and_target("logistic")
    for again in (lambda model: model.fit(rows, target), lambda model: model.fit_stream(array_stream(rows, target))):
        model = again(taught("logistic", 2))
        assert same(model, again(make("logistic")))
        model.partial_fit(*batches("logistic", 1)[0])
        assert same(model, taught("logistic", 1))


def others(rows, target):
    """Batches that do not go with the first one, and what is said of them."""
    return {
        "columns": ((rows[:, :3], target), "3 features"),
        "NaN": (with_bad(rows, target, 0, np.nan), "NaN"),
        "class": ((rows, np.where(np.arange(len(rows)) < 2, 5, target)), "2 of 400 rows have a class"),
        "classes": ((rows, target, [0, 2]), "the classes differ"),
        "more classes": ((rows, target, [0, 1, 2]), "the classes differ"),
        "empty": ((rows[:0], target[:0]), "0 sample"),
    }


@pytest.mark.parametrize("name", others(*batches("logistic", 1)[0]))
def test_a_refused_batch_leaves_the_model_as_it_was(name):
    one, two = batches("logistic", 2)
    arguments, message = others(*two)[name]
    model = make("logistic").partial_fit(*one)
    before = state(model)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(*arguments)
    assert all(a is b for a, b in zip(state(model), before, strict=True))
    assert same(model.partial_fit(*two), taught("logistic", 2))


def test_a_refused_first_batch_leaves_a_fitted_model_as_it_was():
    rows, target = rows_and_target("logistic")
    model = make("logistic").fit(rows, target)
    before = dict(vars(model))
    with pytest.raises(InputError, match="not among the declared"):
        model.partial_fit(rows[:, :2], target + 5)
    assert vars(model) == before
    assert model.predict(rows).shape == (N,)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 5.0},
        {"insecure_seed": None},
        {"insecure_seed": 4},
        {"feature_norm": 1.0},
        {"rows": "unit"},
        {"adjacency": "replace"},
    ],
    ids=str,
)
def test_arguments_stay_from_the_first_batch_on(change):
    """A certificate tells of all batches: that none was drawn with a fixed seed, say."""
    one, two = batches("logistic", 2)
    model = make("logistic").partial_fit(*one)
    with pytest.raises(InputError, match="arguments were changed since the first batch"):
        model.set_params(**change).partial_fit(*two)
    assert same(
        model.set_params(**{**COMMON, "insecure_seed": 3, "rows": "clip", "adjacency": "add-remove"}).partial_fit(*two),
        taught("logistic", 2),
    )


def test_the_range_of_the_target_stays():
    one, two = batches("huber", 2)
    model = make("huber").partial_fit(*one)
    with pytest.raises(InputError, match="arguments were changed"):
        model.set_params(target_range=(-5, 5)).partial_fit(*two)


def test_classes_come_from_the_constructor_or_the_first_call():
    rows, target = batches("softmax", 1)[0]
    model = make("softmax", classes=None)
    with pytest.raises(InputError, match="partial_fit does not see all rows"):
        model.partial_fit(rows, target)
    model.partial_fit(rows, target, classes=["r", "q", "p"]).partial_fit(rows, target).partial_fit(rows, target, ["p", "q", "r"])
    assert list(model.classes_) == ["p", "q", "r"]
    with pytest.raises(InputError, match="the classes differ"):
        make("softmax").partial_fit(rows, target, classes=["p", "q"])
