# pyright: basic, reportArgumentType=false
"""Every kind of training names what it must, and credits nobody who cannot have seen to it."""

from __future__ import annotations

import numpy as np
import pytest

import dplateau as dp
from dplateau.algorithms import Budget, Problem, start_online_sgd
from dplateau.losses import Hinge, Logistic
from dplateau.spec import By, Estimator, Generator, How, Run, Runs, Training
from dplateau.spec import assumption as a
from dplateau.spec.required import problems_of
from dplateau.training import SecureGenerator, train
from dplateau.training.phased_erm import train_phased_erm
from dplateau.training.phased_sgd import train_phased_sgd
from dplateau.training.result import gradient_assumptions

SECRET, TORCH = Generator("AES-256-CTR", "operating-system"), Generator("torch's generator", "not-cryptographic")
CSPRNG = Generator("torchcsprng", "operating-system")
ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 2))
SIGNS = (np.arange(40) % 2).astype(float)
PLAIN = Run(n=40, sampling=dp.Poisson(10), steps=3, noise_multiplier=2.0, step_size=0.5)


def gradient_steps():
    curved = {"smoothness": 0.4, "strong_convexity": 0.1, "l2": 0.1, "diameter": 4.0, "released": "last"}
    run = PLAIN.replace(sampling=dp.Cyclic(10), clip_norm=1.0, **curved)
    result = train(run, Logistic(), ROWS, SIGNS, l2=0.1, dtype="float64")
    return result.assumptions, result.training, result.run, result.generator, None


def phased(update, fit, loss):
    run = Run(
        n=40,
        sampling=dp.OnePass((20, 10)),
        steps=2,
        noise_multiplier=1.0,
        step_size=0.5,
        smoothness=0.2 if update == "phased-sgd" else None,
        strong_convexity=0.0,
        diameter=3.0,
        released="last",
        update=update,
    )
    result = fit(run, loss, ROWS, SIGNS)
    return result.assumptions, result.training, result.run, result.generator, None


def online():
    state = start_online_sgd(Problem(len(ROWS), 2, Logistic()), Budget(1.0, 1e-3))
    result = state.step(ROWS, SIGNS)[1]
    return result.assumptions, result.training, result.run, result.generator, None


def estimator(kind, line):
    facts = (*gradient_assumptions(PLAIN, SecureGenerator()), a.Rows(norm=1.0, scaled=False).enforced(), line)
    return facts, Training.GRADIENT_STEPS, PLAIN, SECRET, kind


def network(*, restarted=False):
    run = PLAIN.replace(update="post-processed")
    facts = [*gradient_assumptions(run, SecureGenerator()), a.PublicValidation(data="last year's"), a.OneContinuation()]
    if restarted:
        facts += [a.LostSteps(steps=2).enforced(), a.Restarts()]
    return tuple(facts), Training.NETWORK, Runs((run, run.replace(steps=2))) if restarted else run, SECRET, None


def opacus(generator):
    drawn = a.Batches(scheme="poisson"), a.Noise(grid=False)
    facts = (
        *(one.enforced() if generator == SECRET else one.vouched(By.OPACUS) for one in drawn),
        *(one.vouched(By.OPACUS) for one in (a.Clipping(clip_norm=1.0), a.Divisor())),
        *(a.PublicConstants(), a.SeparateExamples(), a.Steps(), a.Arithmetic(rounding="ignored"), a.Features()),
    )
    return facts, Training.OPACUS, PLAIN, generator, None


def elsewhere():
    facts = (
        *(a.PublicConstants(), a.Batches(scheme="poisson"), a.Clipping(clip_norm=1.0), a.Divisor(), a.Noise(grid=True), a.Steps()),
        *(a.PublicSchema(), a.Arithmetic(rounding="bounded"), a.Classes(count=2, declared=True), a.Rows(norm=1.0, scaled=True)),
    )
    return facts, Training.DECLARED, PLAIN, SECRET, None


MADE = {
    "gradient steps": gradient_steps,
    "phased-sgd": lambda: phased("phased-sgd", train_phased_sgd, Logistic()),
    "phased-erm": lambda: phased("phased-erm", train_phased_erm, Hinge()),
    "online": online,
    "classifier": lambda: estimator(Estimator.CLASSIFIER, a.Classes(count=2, declared=True)),
    "regressor": lambda: estimator(Estimator.REGRESSOR, a.Target(low=0, high=1).enforced()),
    "network": network,
    "restarted network": lambda: network(restarted=True),
    "opacus": lambda: opacus(SECRET),
    "opacus without draws": lambda: opacus(TORCH),
    "opacus with torchcsprng": lambda: opacus(CSPRNG),
    "elsewhere": elsewhere,
}
OPTIONAL = {"network": {"validation", "one continuation"}, "restarted network": {"validation"}, "elsewhere": {"classes", "rows"}}


@pytest.fixture(scope="module", params=MADE)
def made(request):
    return request.param, MADE[request.param]()


def test_honest_facts_are_all_there(made):
    _, (facts, *rest) = made
    assert problems_of(facts, *rest) == []


def test_none_can_be_left_out_or_come_twice(made):
    name, (facts, *rest) = made
    for i, one in enumerate(facts):
        without = [*facts[:i], *facts[i + 1 :]]
        assert bool(problems_of(without, *rest)) is (one.name not in OPTIONAL.get(name, ())), one.name
        assert problems_of([*facts, one], *rest), one.name


def test_none_can_be_credited_to_somebody_else(made):
    _, (facts, *rest) = made
    for i, one in enumerate(facts):
        for how in How:
            for by in By:
                if (how, by) != (one.how, one.by):
                    other = one.enforced(by) if how is How.ENFORCED else one.vouched(by)
                    if how is How.DERIVED:
                        other = type(one)(**{**one.__dict__, "how": how, "by": by})
                    assert problems_of([*facts[:i], other, *facts[i + 1 :]], *rest), (one.name, how, by)


DECLARED = (
    *(a.OneBatch(), a.Target(low=0.0, high=1.0), a.ClassWeights(weights="1 and 0.5"), a.HeldOut(rows=10, noise_multiplier=3.0)),
    *(a.SeparateExamples(), a.PublicValidation(data="last year's"), a.Processes(count=2)),
)


@pytest.mark.parametrize("line", DECLARED, ids=lambda line: line.name)
def test_what_a_training_elsewhere_may_declare(line):
    facts, *rest = elsewhere()
    assert problems_of([*facts, line], *rest) == []
    assert problems_of([*facts, line, line], *rest)
    assert problems_of([*facts, line.enforced()], *rest)


def test_numbers_are_those_of_the_run(made):
    _, (facts, *rest) = made
    for i, one in enumerate(facts):
        for field in ("clip_norm", "diameter", "smoothness", "strong_convexity"):
            if hasattr(one, field):
                other = type(one)(**{**one.__dict__, field: getattr(one, field) / 2})
                assert problems_of([*facts[:i], other, *facts[i + 1 :]], *rest), (one.name, field)


def test_only_dplateau_enforces_and_what_only_people_know_is_declared():
    for name, made in MADE.items():
        for one in made()[0]:
            assert one.how is How.DECLARED or one.by is By.DPLATEAU
            if one.name in ("classes", "public constants", "order", "validation", "features", "schema", "one batch a record"):
                assert (one.how, one.by) == (How.DECLARED, By.CALLER)
            assert one.how is How.DECLARED or name != "elsewhere"


def test_clipping_and_arithmetic_are_enforced_but_for_trainings_elsewhere():
    for name in ("gradient steps", "online", "network", "classifier"):
        facts = {one.name: one for one in MADE[name]()[0]}
        assert facts["clipping"].how is facts["arithmetic"].how is How.ENFORCED
        assert facts["arithmetic"].statement == "sums are exact: integers on a public grid"
    arithmetic = {one.name: one for one in MADE["opacus"]()[0]}["arithmetic"]
    assert (arithmetic.how, arithmetic.rounding) == (How.DECLARED, "ignored")


@pytest.mark.parametrize("name", ["network", "opacus", "opacus without draws"])
def test_nothing_enforces_what_last_iterates_need_of_networks(name):
    facts, training, run, *rest = MADE[name]()
    last = run.replace(update="sgd", smoothness=0.4, strong_convexity=0.0, diameter=0.01, released="last")
    assert problems_of(facts, training, last, *rest) == [f"the run is none of {training.value} training"]


def test_phases_and_steps_are_not_mixed_in_one_training():
    facts, _, run, generator, _ = gradient_steps()
    phases = Run(
        n=40, sampling=dp.OnePass(20), steps=2, noise_multiplier=1.0, step_size=0.5, strong_convexity=0.0, update="phased-erm"
    )
    wrong = "the run is none of gradient-steps training"
    assert wrong in problems_of(facts, Training.GRADIENT_STEPS, Runs([run, phases]), generator)


def test_estimators_train_linear_models_only():
    facts, _, run, generator, _ = network()
    assert "no classifier comes of network training" in problems_of(facts, Training.NETWORK, run, generator, Estimator.CLASSIFIER)
