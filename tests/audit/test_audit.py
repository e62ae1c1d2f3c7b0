# pyright: basic, reportArgumentType=false, reportIncompatibleMethodOverride=false
from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import islice

import pytest

import dplateau.audit
from dplateau.accounting import GaussianDP, Proved
from dplateau.analyses import ANALYSES, Analysis, ExactCompositionBound
from dplateau.audit import BoundVerdict, Finding, Instance, audit, examine, final_laws, setting, settings, worst_instance
from dplateau.audit.instance import check_instance
from dplateau.spec import SAMPLINGS, Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, Run

COUNT = 50


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    return list(audit(ANALYSES, COUNT, seed=0))


def test_no_proved_bound_is_broken(findings):
    assert not [(f.index, v.analysis, v.broken) for f in findings for v in f.verdicts if v.status == "Proved" and v.broken]


def test_no_analysis_fails(findings):
    assert not [(f.index, v.analysis, v.failed) for f in findings for v in f.verdicts if v.failed]


def test_nearly_every_run_has_exact_laws(findings):
    assert sum(finding.epsilon is None for finding in findings) <= COUNT // 20


def test_the_search_meets_tight_bounds(findings):
    ratios = [v.tightness for f in findings for v in f.verdicts if v.analysis == "exact-composition"]
    assert sum(ratio > 0.99 for ratio in ratios if ratio is not None) >= 3
    assert all(ratio <= 1 + 1e-6 for ratio in ratios if ratio is not None)


def test_a_bound_that_is_no_bound_is_broken(findings):
    """The central limit theorem is not an upper bound, and a fixed small sample shows it."""
    assert any(v.broken for f in findings for v in f.verdicts if v.status == "Asymptotic")


def test_findings_can_be_computed_again(findings):
    finding = findings[5]
    data = json.loads(json.dumps(finding.to_dict(), allow_nan=False))
    run, instance = Run.from_dict(data["run"]), Instance.from_dict(data["instance"])
    assert (run, instance) == (finding.run, finding.instance)
    assert final_laws(run, instance).epsilon(data["delta"]) == data["epsilon"]
    assert [v["epsilon"] for v in data["verdicts"]] == [v.epsilon for v in finding.verdicts]


class LessNoise(ExactCompositionBound):
    """Claims what a run with a fifth more noise would cost."""

    name = "a-fifth-too-small"

    def guarantee(self, run):
        return super().guarantee(run.replace(noise_multiplier=_scaled(run.noise_multiplier, 1.2)))


class OneSided(ExactCompositionBound):
    """Takes the sensitivity of add-remove where records are replaced."""

    name = "one-sided"

    def guarantee(self, run):
        return super().guarantee(run.replace(adjacency="add-remove"))


class AveragedBatch(Analysis):
    """Moves the expectation over the batch inside: every step as a Gaussian of sensitivity q."""

    name, source, status = "averaged-batch", "", Proved

    def why_not(self, run):
        return None if isinstance(run.sampling, (Poisson, FixedSize)) else "random batches only"

    def guarantee(self, run):
        sizes, z = run.sampling.divisors(run.n), run.noise_multiplier
        rate, noise = (min(x) if isinstance(x, tuple) else x for x in (sizes, z))
        return GaussianDP((2 if run.adjacency == "replace" else 1) * rate / run.n / noise * math.sqrt(run.steps))


class ForgetsTheWalls(Analysis):
    """Takes the plateau of a cyclic or full-batch run to be a tenth of the diameter's."""

    name, source, status = "small-plateau", "", Proved

    def why_not(self, run):
        return None if isinstance(run.sampling, (Cyclic, FullBatch)) else "fixed order only"

    def guarantee(self, run):
        eta, z = (x if isinstance(x, float) else min(x) for x in (run.step_size, run.noise_multiplier))
        sizes = run.sampling.divisors(run.n)
        deviation = eta * z / (max(sizes) if isinstance(sizes, tuple) else sizes)
        return GaussianDP(0.1 * run.diameter / deviation)


class WrongOnlyInTheTail(ExactCompositionBound):
    """Right where it is searched for, and far too small at all other deltas."""

    name = "thin-tail"

    def guarantee(self, run):
        return _Thin(super().guarantee(run))


class _Thin:
    mu = None

    def __init__(self, honest):
        self.honest, self.first = honest, None

    def epsilon(self, delta):
        self.first = self.first or delta
        return self.honest.epsilon(delta if delta == self.first else 0.3)


def _scaled(value, factor):
    return tuple(factor * x for x in value) if isinstance(value, tuple) else factor * value


@pytest.mark.parametrize("fake", [LessNoise(), OneSided(), AveragedBatch(), ForgetsTheWalls(), WrongOnlyInTheTail()])
def test_fakes_are_caught(fake):
    """Power: statements that are too small in different ways are all refuted within a few dozen runs."""
    covered = (run for run in islice(settings(1), 60) if fake.why_not(run) is None)
    found = (examine(run, [fake]) for run in covered)
    caught = next((finding for finding in found if any(v.broken for v in finding.verdicts)), None)
    assert caught is not None, fake.name
    verdict = caught.verdicts[0]
    assert "the bound says" in verdict.broken
    assert verdict.analysis == fake.name


def test_a_slightly_too_small_bound_is_caught_where_bounds_are_tight(make):
    run = make(steps=1, noise_multiplier=1.0, n=3)

    class HairTooSmall(ExactCompositionBound):
        def guarantee(self, run):
            return super().guarantee(run.replace(noise_multiplier=1.002))

    assert examine(run, [ExactCompositionBound()]).verdicts[0].broken is None
    wide = run.replace(diameter=20.0)
    assert examine(wide, [HairTooSmall()]).verdicts[0].broken
    assert examine(wide, [ExactCompositionBound()]).verdicts[0].tightness == pytest.approx(1, abs=1e-3)


def test_settings_are_reproducible_and_varied():
    first = list(islice(settings(3), 300))
    assert list(islice(settings(3, 200), 100)) == first[200:]
    assert setting(3, 17) == first[17]
    assert setting(4, 17) != first[17]
    assert {run.sampling.kind for run in first} == set(SAMPLINGS)
    assert {run.adjacency for run in first} == {"replace", "add-remove"}
    for name in ("noise_multiplier", "step_size"):
        assert {isinstance(getattr(run, name), tuple) for run in first} == {True, False}
    assert {isinstance(run.sampling.divisors(run.n), tuple) for run in first} == {True, False}
    assert {run.strong_convexity == 0 for run in first} == {True, False}
    assert all(run.released == "last" for run in first)
    assert all(max(_tuple(run.step_size)) * run.smoothness <= 2 for run in first)
    assert max(run.steps for run in first) > 200
    with pytest.raises(InputError, match="index is -1"):
        setting(0, -1)


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


def test_the_search_only_proposes_what_the_run_allows():
    for run in islice(settings(5), 30):
        instance = worst_instance(run, 1e-3, tries=6)
        check_instance(run, instance)


def test_the_search_improves_with_effort():
    """More tries from the same best instance never lose, and help somewhere."""
    gains = []
    for run in islice(settings(6), 12):
        best = worst_instance(run, 1e-3, tries=0)
        better = worst_instance(run, 1e-3, tries=20, best=best)
        gains.append(final_laws(run, better).epsilon(1e-3) - final_laws(run, best).epsilon(1e-3))
    assert min(gains) > -1e-2
    assert max(gains) > 1e-2


def test_others_may_differ_from_batch_to_batch(make):
    """Contraction after the record's batch hides it: the others of later batches matter, those before do not."""
    run = make(
        n=4, sampling=OnePass(1), steps=4, smoothness=2.0, step_size=0.5, diameter=30.0, noise_multiplier=4.0, clip_norm=30.0
    )
    flat = worst_instance(run, 1e-5, tries=0)
    instance = replace(flat, position=1, start=0.0, l2=0.0)
    zero, steep = type(flat.second)(0.0, 0.0), type(flat.second)(2.0, 0.0)
    late = replace(instance, others=(zero, zero, zero, steep))
    early = replace(instance, others=(steep, zero, zero, zero))
    plain = replace(instance, others=(zero,) * 4)
    a, b, c = (final_laws(run, x).epsilon(1e-5) for x in (late, early, plain))
    assert a < 1e-6
    assert b == pytest.approx(c, rel=0.5)


def test_a_run_without_walls_is_refused(make):
    with pytest.raises(InputError, match="lacks diameter"):
        examine(make(diameter=None), ANALYSES)


def test_an_error_elsewhere_is_recorded():
    class FailsElsewhere(ExactCompositionBound):
        def guarantee(self, run):
            return _Failing(super().guarantee(run))

    (finding,) = audit([FailsElsewhere()], 1, seed=8)
    assert finding.verdicts[0].failed == "ZeroDivisionError: float division by zero"
    assert finding.verdicts[0].tightness > 0


class _Failing(_Thin):
    def epsilon(self, delta):
        self.first = self.first or delta
        if delta != self.first:
            raise ZeroDivisionError("float division by zero")  # Python 3.14 has other words for it.
        return self.honest.epsilon(delta)


def test_some_runs_state_an_l2_term_and_instances_respect_it():
    runs = [setting(0, index) for index in range(60)]
    stated = [run for run in runs if run.l2]
    assert {run.l2 == run.strong_convexity for run in stated} == {True, False}
    assert any(run.strong_convexity and not run.l2 for run in runs)
    instance = worst_instance(stated[0], 1e-3, tries=3)
    assert instance.l2 >= stated[0].l2
    with pytest.raises(InputError, match="the run's"):
        check_instance(stated[0], replace(instance, l2=stated[0].l2 / 2))


def test_the_old_name_of_a_bounds_verdict_warns():
    """``certificate.Verdict`` is another class, of the same name once."""
    with pytest.warns(DeprecationWarning, match=r"dplateau\.audit\.Verdict is dplateau\.audit\.BoundVerdict now"):
        assert dplateau.audit.Verdict is BoundVerdict
