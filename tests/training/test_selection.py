"""``select``: coins, scores, and that only the best is told."""

# pyright: basic, reportArgumentType=false, reportPrivateUsage=false
from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from typing import Any

import jsonschema
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kstest

import dplateau as dp
from dplateau.certificate import Certificate, make_certificate, verify
from dplateau.losses import Logistic
from dplateau.report.page import certificate_page
from dplateau.spec import ContradictionError
from dplateau.training import SecureGenerator, TrainingDiverged, TrainingInterrupted, TrainResult, scored, select, train
from dplateau.training.result import assumptions_of, gradient_assumptions
from dplateau.training.selection import _noisy

N = 2000
RUNS = [dp.Run(n=N, sampling=dp.Poisson(100), steps=steps, noise_multiplier=6.0, step_size=0.5) for steps in (5, 20, 60)]
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3)) / 2
Y = (X[:, 0] > 0).astype(int)


def fake(values: dict[int, float] | None = None, *, generator: SecureGenerator | None = None, noise: bool = False) -> Any:
    """A training that returns its number of steps, or what ``values`` says for it, as weights."""
    drawn = generator or SecureGenerator()

    def trained(run: dp.Run) -> TrainResult:
        value = float(drawn.normal(1)[0]) if noise else (values or {}).get(run.steps, float(run.steps))
        if np.isnan(value):
            raise TrainingDiverged("no longer finite")
        return TrainResult(np.array([value]), run, tuple(gradient_assumptions(run, drawn)), drawn.source, "float64")

    return trained


def by_weight(result: Any) -> float:
    return float(result.weights[0])


def test_the_best_of_those_that_were_tried() -> None:
    selection = dp.Selection(RUNS, 0.5)
    found = Counter(select(selection, [fake()] * 3, by_weight, public="nothing").index for _ in range(3000))
    # The last one wins where it is tried: 4 of the 7 ways to toss three coins with a head.
    for index, share in enumerate((1 / 7, 2 / 7, 4 / 7)):
        assert abs(found[index] / 3000 - share) < 5 * np.sqrt(share * (1 - share) / 3000)


def test_the_law_of_what_is_told() -> None:
    """As the proof has it: (1 - p + p Phi)^K, less and over what tossing again leaves out."""
    p, selection = 0.3, dp.Selection(RUNS[:1] * 4, 0.3)
    found = [by_weight(select(selection, [fake(noise=True)] * 4, by_weight, public="x").best) for _ in range(4000)]
    nobody = (1 - p) ** 4
    assert kstest(found, lambda x: ((1 - p + p * ndtr(x)) ** 4 - nobody) / (1 - nobody)).pvalue > 1e-4
    assert kstest(found, lambda x: ndtr(x) ** 4).pvalue < 1e-6  # as if all were tried


def test_of_equal_scores_the_first() -> None:
    assert select(dp.Selection(RUNS, 1.0), [fake()] * 3, lambda _: 1.0, public="x").index == 0


def test_scores_of_records_are_exact_sums_with_noise() -> None:
    generator = SecureGenerator()
    values = np.full(N, 0.1)
    whole = np.floor(0.1 * 2**20) * N / 2**20
    found = np.array([_noisy(lambda: values, N, 7.0, generator) * N - whole for _ in range(4000)])
    assert kstest(found / 7.0, "norm").pvalue > 1e-4
    assert np.all((found + whole) * 2**28 == np.rint((found + whole) * 2**28))  # on the grid of the noise


def test_noise_that_leaves_next_to_nothing_of_one_record_is_refused() -> None:
    """Its grid would be coarser than a sixteenth of what one record adds."""
    _noisy(lambda: np.ones(N), N, 2.0**26, SecureGenerator())
    with pytest.raises(dp.InputError, match="on a score is beyond double precision"):
        _noisy(lambda: np.ones(N), N, 2.0**27, SecureGenerator())


@pytest.mark.parametrize(("bad", "counts"), [(np.nan, 0.0), (np.inf, 1.0), (-np.inf, 0.0), (17.0, 1.0), (-3.0, 0.0)])
def test_one_record_moves_a_score_by_at_most_one(bad: float, counts: float) -> None:
    """Whatever a model says of it."""
    one, other = np.full(N, 0.5), np.full(N, 0.5)
    one[3] = bad
    other[3] = 0.0
    moved = [_noisy(lambda v=v: v, N, 1e-3, SecureGenerator(insecure_seed=1)) * N for v in (one, other)]
    assert moved[0] - moved[1] == pytest.approx(counts, abs=1e-9)


def linear(selection: dp.Selection, **more: Any) -> Any:
    return select(
        selection,
        [lambda run: train(run, Logistic(), X, Y)] * 3,
        lambda result: (X @ result.weights > 0) == Y,
        assumptions=[assumptions_of(run, Logistic(), SecureGenerator()) for run in RUNS],
        **more,
    )


def test_a_certificate_of_the_best(tmp_path: Any) -> None:
    selection = dp.calibrate(dp.Selection([scored(run, 40.0) for run in RUNS]), epsilon=2.0, delta=1e-5)
    parts = [candidate.runs[0] for candidate in selection.candidates]
    result = select(
        selection,
        [lambda run: train(run, Logistic(), X, Y)] * 3,
        lambda result: (X @ result.weights > 0) == Y,
        assumptions=[assumptions_of(run, Logistic(), SecureGenerator()) for run in parts],
    )
    certificate = make_certificate(dp.account(selection, 1e-5), result)
    assert certificate.certifies
    assert 1.999 < certificate.epsilon <= 2.0
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    assert verify(again).agrees
    schema = json.loads(schema_file().read_text())
    jsonschema.validate(json.loads(certificate.to_json()), schema)
    assert "only the best is told" in " ".join(str(certificate).split())
    page = certificate_page(certificate)
    assert "which one of 3 candidates it is" in page


def schema_file() -> Any:
    from importlib.resources import files

    return files("dplateau.certificate") / "certificate.schema.json"


def test_forgeries_are_found() -> None:
    result = linear(dp.Selection([scored(run, 40.0) for run in RUNS]))
    certificate = make_certificate(dp.account(result.run, 1e-5), result)
    data = json.loads(certificate.to_json())
    for change in (
        lambda run: run.update(probability=0.01),
        lambda run: run["candidates"].pop(),
        lambda run: run["candidates"][0]["runs"][0].update(noise_multiplier=60.0),
    ):
        forged = json.loads(json.dumps(data))
        change(forged["run"])
        with suppress(ContradictionError):
            assert not verify(Certificate.from_json(json.dumps(forged))).agrees
    without = {**data, "assumptions": [one for one in data["assumptions"] if one["name"] != "selection"]}
    with pytest.raises(ContradictionError, match="'selection' is missing"):
        Certificate.from_json(json.dumps(without))


def test_a_divergent_training_comes_last() -> None:
    selection = dp.Selection(RUNS, 1.0)
    assert select(selection, [fake({60: np.nan, 5: -7.0, 20: -8.0})] * 3, by_weight, public="x").index == 0
    with pytest.raises(TrainingDiverged, match="every training diverged"):
        select(selection, [fake(dict.fromkeys((5, 20, 60), np.nan))] * 3, by_weight, public="x")


class Account:
    def __init__(self, generator: SecureGenerator) -> None:
        self.generator, self.entries = generator, []

    def reserve(self, run: Any) -> Account:
        self.entries.append((run, self.generator.drawn))
        return self

    def commit(self, certificate: Any = None) -> None:
        self.entries.append(("committed", certificate))


def test_it_is_paid_for_before_the_first_coin() -> None:
    generator, selection = SecureGenerator(), dp.Selection(RUNS)
    account = Account(generator)
    select(selection, [fake(generator=generator)] * 3, by_weight, public="x", generator=generator, ledger=account)
    assert account.entries == [(selection, 0), ("committed", None)]
    assert generator.drawn > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"trainings": [fake()] * 2}, "there are 3 candidates"),
        ({"score": [by_weight] * 2}, "there are 3 candidates"),
        ({"public": None}, "not a training and its score"),
        ({"score": lambda _: float("nan")}, "no finite number"),
        ({"score": lambda _: np.zeros(3)}, "no finite number"),
        ({"trainings": [lambda run: fake()(run.replace(steps=7))] * 3}, "another run"),
        ({"trainings": [fake(generator=SecureGenerator(insecure_seed=1))] * 3}, "drew from"),
        ({"assumptions": [()] * 3}, "also rests on"),
        ({"generator": np.random.default_rng()}, "generator is Generator: expected a SecureGenerator"),
        ({"selection": RUNS[0]}, "selection is of type Run: expected a Selection"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {"trainings": [fake()] * 3, "score": by_weight, "public": "x"} | arguments
    given = {"selection": dp.Selection(RUNS, 1.0)} | given
    selection, trainings, score = (given.pop(name) for name in ("selection", "trainings", "score"))
    with pytest.raises(dp.InputError, match=says):
        select(selection, trainings, score, **given)


def test_coins_that_nobody_waits_for_cost_nothing() -> None:
    generator = SecureGenerator()
    account = Account(generator)
    with pytest.raises(dp.InputError, match="tossed some 3e\\+07 times"):
        select(dp.Selection(RUNS, 1e-8), [fake()] * 3, by_weight, public="x", generator=generator, ledger=account)
    assert not account.entries


def test_bad_scores_of_records() -> None:
    selection = dp.Selection([scored(run, 40.0) for run in RUNS], 1.0)
    for score, says in ((lambda _: np.zeros((N, 2)), "one number for each"), (lambda _: np.zeros(N + 1), "one number for each")):
        with pytest.raises(dp.InputError, match=says):
            select(selection, [fake()] * 3, score)
    with pytest.raises(dp.InputError, match="one run"):
        select(selection, [fake()] * 3, by_weight, public="x")
    for broken in (dp.Runs(RUNS[:1] * 2), dp.Runs([RUNS[0], scored(RUNS[0], 4.0).runs[1], RUNS[0]])):
        with pytest.raises(dp.InputError, match="not a training and its score"):
            select(dp.Selection([broken]), [fake()], lambda _: np.zeros(N))


def test_a_seed_voids_the_certificate() -> None:
    generator = SecureGenerator(insecure_seed=1)
    result = select(dp.Selection(RUNS), [fake(generator=generator)] * 3, by_weight, public="x", generator=generator)
    assert not make_certificate(dp.account(result.run, 1e-5), result).certifies


def frames_of(error: BaseException) -> list[Any]:
    """Everything that the frames of an error, and of those that it leads back to, hold."""
    found: list[Any] = []
    seen: BaseException | None = error
    while seen is not None:
        trace = seen.__traceback__
        while trace is not None:
            found += trace.tb_frame.f_locals.values() if trace.tb_frame.f_code.co_filename != __file__ else []
            trace = trace.tb_next
        seen = seen.__cause__ or seen.__context__
    return found


def test_an_interrupt_leads_to_no_result() -> None:
    def interrupted(run: dp.Run) -> TrainResult:
        raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted, match="nothing was released") as caught:
        select(dp.Selection(RUNS, 1.0), [fake(), fake(), interrupted], by_weight, public="x")
    held = frames_of(caught.value)
    assert held
    assert not [one for one in held if isinstance(one, TrainResult | tuple) and "TrainResult" in repr(one)]
