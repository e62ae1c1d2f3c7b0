"""``prove``: what the second accountant says of certificates, and what is kept of it."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("flint")

import dplateau as dp
from dplateau.certificate import DeclaredTraining, Proof, make_certificate, proof_path, prove, read_proof
from dplateau.certificate import proof as module
from dplateau.report import certificate_page
from dplateau.spec import Generator, InputError, UncertifiedError
from dplateau.spec import assumption as a

RUN = dp.Run(n=10_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=40.0)
DRAWN = dp.Run(n=10_000, sampling=dp.Poisson(100), steps=500, noise_multiplier=1.0)


def certificate_of(run=RUN, delta=1e-6):
    facts = (
        *(a.PublicConstants(), a.Batches(scheme=run.sampling.kind), a.Clipping(clip_norm=1.0), a.Divisor()),
        *(a.Noise(grid=True), a.Steps(), a.Features(), a.Arithmetic(rounding="exact")),
    )
    return make_certificate(dp.account(run, delta), DeclaredTraining(run, facts, Generator("AES-256-CTR", "operating-system")))


@pytest.mark.parametrize("run", [RUN, DRAWN])
def test_a_certificate_is_verified_and_a_lower_one_refuted(run):
    certificate = certificate_of(run)
    proof = prove(certificate)
    assert (proof.outcome, proof.verified, proof.why) == ("verified", True, None)
    assert (proof.epsilon, proof.delta, proof.bound) == (certificate.epsilon, certificate.delta, certificate.bound)
    assert proof.digits >= 12
    assert proof.lower <= proof.upper <= certificate.epsilon
    # One unit of the eighth digit, which is the last one of a certificate.
    lowered = float(f"{certificate.epsilon * (1 - 1e-7):.8g}")
    forged = replace(certificate, epsilon=lowered)
    assert prove(forged).outcome == "refuted"


def test_a_bound_that_does_not_apply_is_refused():
    certificate = certificate_of(DRAWN)
    for name in ("sampled-last-iterate", "fixed-order", "reflection-coupling"):
        with pytest.raises(InputError, match=f"the bound {name} is none of such a run"):
            prove(replace(certificate, bound=name))


def test_a_claim_about_a_run():
    least = prove(DRAWN, 2.0, 1e-6).upper
    assert prove(DRAWN, least * (1 + 1e-9), 1e-6).verified
    assert prove(DRAWN, least * (1 - 1e-9), 1e-6).outcome == "refuted"
    with pytest.raises(InputError, match="give epsilon and delta"):
        prove(DRAWN)
    with pytest.raises(InputError, match="leave out both"):
        prove(certificate_of(), 1.0, 1e-6)
    with pytest.raises(InputError, match="in \\(0, 1\\)"):
        prove(DRAWN, 1.0, 1.0)
    with pytest.raises(InputError, match="finite number"):
        prove(DRAWN, float("nan"), 1e-6)


def test_what_is_too_long_is_refused_before_anything_is_computed(monkeypatch):
    run = dp.Run(n=10**9, sampling=dp.Shuffled(1), steps=10, noise_multiplier=tuple(range(1, 11)))
    certificate = replace(certificate_of(), run=run, run_digest=run.digest)
    monkeypatch.setattr(module, "account", None)
    monkeypatch.setattr(module, "_part", None)
    proof = prove(certificate)
    assert (proof.outcome, proof.others) == ("not decided", ())
    assert proof.why == "the run has 1,000,000,000 batches in an epoch to look at one by one: at most 1,000,000 can be checked"
    for call in (lambda: prove(certificate, every=True), lambda: prove(run, 1.0, 1e-5)):
        with pytest.raises(InputError, match="1,000,000,000 batches"):
            call()


def test_several_runs_each_by_its_best():
    last = dp.Run(
        n=10_000, sampling=dp.FullBatch(), steps=1000, noise_multiplier=40.0, step_size=1.0, smoothness=1.0, strong_convexity=0.1,
        l2=0.1, released="last",
    )  # fmt: skip
    runs = dp.compose(DRAWN, last)
    report = dp.account(runs, 1e-6)
    assert report.best.name == "composed-runs"
    assert prove(runs, report.epsilon, 1e-6).verified


def test_a_dominated_bound_is_proved_by_the_one_that_dominates_it():
    assert prove(replace(certificate_of(), bound="zcdp")).verified


def test_a_selection_is_verified_and_a_lower_one_is_not_refuted():
    """Another order might give less than a lower claim, so it is not decided."""
    selection = dp.Selection([RUN, RUN.replace(noise_multiplier=50.0), RUN])
    report = dp.account(selection, 1e-6)
    assert report.best.name == "private-selection"
    found = prove(selection, report.epsilon, 1e-6)
    assert (found.outcome, found.bound, found.lower, found.digits) == ("verified", "private-selection", None, None)
    assert report.epsilon * (1 - 1e-4) < found.upper <= report.epsilon
    lower = prove(selection, report.epsilon * (1 - 1e-3), 1e-6)
    assert (lower.outcome, lower.why, lower.upper) == ("not decided", "another order may give less", found.upper)
    assert prove(replace(certificate_of(), run=selection, run_digest=selection.digest, bound="private-selection")).upper < 1e3


def test_a_bound_of_its_own_is_not_decided_where_what_dominates_it_does_not_cover_the_run():
    """Batches of 20 of 100 are now and then too large for a contraction; the published bound asks for less."""
    run = dp.Run(n=100, sampling=dp.Poisson(20), steps=20_000, noise_multiplier=4.0, step_size=1.0, smoothness=1.0)
    run = run.replace(strong_convexity=0.0, diameter=0.5, released="last")
    report = dp.account(run, 5e-3)
    assert report.best.name == "noisy-sgd"
    changes = {"run": run, "run_digest": run.digest, "bound": "noisy-sgd", "epsilon": report.epsilon, "delta": 5e-3, "mu": None}
    certificate = replace(certificate_of(), **changes)
    found = prove(certificate)
    assert (found.outcome, found.why) == ("not decided", "the bound noisy-sgd has no second computation")
    with pytest.raises(InputError, match="noisy-gd is none of such a run: it is for sampling FullBatch"):
        prove(replace(certificate, bound="noisy-gd"))


def test_a_selection_has_no_mu():
    """Its page would say how often a guess is right by a mu that nobody has proved."""
    selection = dp.Selection([RUN, RUN.replace(noise_multiplier=50.0), RUN])
    report = dp.account(selection, 1e-6)
    certificate = replace(
        certificate_of(), run=selection, run_digest=selection.digest, bound=report.best.name, epsilon=report.epsilon
    )
    assert prove(replace(certificate, mu=None)).verified
    found = prove(replace(certificate, mu=1e-6))
    assert (found.outcome, found.why) == ("not decided", "mu = 1e-06 was not proved: a selection has none")


def test_a_selection_that_costs_no_less_than_telling_all():
    """The bound is then that of all of them."""
    selection = dp.Selection([RUN] * 2, 1.0)
    report = dp.account(selection, 1e-6)
    assert report.best.name != "private-selection"
    assert prove(selection, report.epsilon, 1e-6).verified


def test_candidates_with_random_allocation():
    """Moments of their epochs are known; a replaced record has no finite divergence."""
    one, certificate = dp.Run(n=1000, sampling=dp.RandomAllocation(50), steps=20, noise_multiplier=3.0), certificate_of()
    for adjacency in ("add-remove", "replace"):
        selection = dp.Selection([one.replace(adjacency=adjacency)] * 2)
        found = prove(replace(certificate, run=selection, run_digest=selection.digest, bound="private-selection", mu=None))
        if adjacency == "add-remove":
            assert found.outcome == "verified"
            assert found.upper <= certificate.epsilon
        else:
            assert found.outcome == "not decided"
            assert "no proved bound" in found.why
            assert (found.lower, found.upper, found.digits) == (None, None, None)


def test_a_run_without_any_epsilon(monkeypatch):
    class NoBest:
        best = None

    monkeypatch.setattr(module, "account", lambda *_: NoBest())
    with pytest.raises(UncertifiedError, match="nothing can be verified"):
        prove(DRAWN, 1.0, 1e-6)


def test_what_is_kept_beside_a_certificate(tmp_path):
    path = tmp_path / "certificate.json"
    certificate = certificate_of()
    certificate.write(path)
    content = path.read_bytes()
    assert read_proof(path, content) is None
    proof = prove(certificate)
    proof_path(path).write_text(proof.to_json(content))
    assert proof_path(path).name == "certificate.proof.json"
    assert read_proof(path, content) == proof
    assert read_proof(path, content + b" ") is None  # of another certificate


def lowered(value):
    """One unit of the eighth digit less, which is the last one of a certificate."""
    return float(f"{value * (1 - 1e-7):.8g}")


def test_every_epsilon_of_a_certificate():
    certificate = certificate_of()
    proof = prove(certificate, every=True)
    assert (proof.outcome, proof.worst) == ("verified", "verified")
    epsilons = [one for one in proof.others if one.about is None]
    of_curve, of_bounds = epsilons[:9], epsilons[9:]
    assert [one.about is None for one in proof.others] == [True] * len(epsilons) + [False] * 28
    said = {delta: epsilon.upper for delta, epsilon in certificate.curve if delta != certificate.delta}
    assert {one.delta: one.epsilon for one in of_curve} == said
    assert {one.bound for one in of_bounds} >= {"renyi-composition", "moments-accountant", "zcdp"}
    assert all(one.delta == certificate.delta for one in of_bounds)
    assert {one.outcome for one in proof.others} == {"verified"}
    assert prove(certificate).others == ()
    with pytest.raises(InputError, match="every is for certificates"):
        prove(RUN, 1.0, 1e-6, every=True)


def test_a_lower_point_of_the_curve_is_refuted():
    certificate = certificate_of(DRAWN)
    delta, epsilon = certificate.curve[6]
    assert delta < certificate.delta
    curve = list(certificate.curve)
    curve[6] = delta, replace(epsilon, upper=lowered(epsilon.upper))
    # The bounds beside it are left out here: each takes a second.
    forged = replace(certificate, curve=tuple(curve[5:8]), bounds=())
    proof = prove(forged, every=True)
    assert (proof.outcome, proof.worst) == ("verified", "refuted")
    # Then come those about attackers, which are not the curve's.
    assert [one.outcome for one in proof.others] == ["verified", "refuted", *["verified"] * 29]


def test_another_bound_that_says_too_little_is_refuted():
    certificate = certificate_of()
    bounds = [
        replace(row, epsilon=replace(row.epsilon, upper=certificate.epsilon / 2)) if row.name == "zcdp" else row
        for row in certificate.bounds
    ]
    found = {one.bound: one.outcome for one in prove(replace(certificate, bounds=tuple(bounds)), every=True).others}
    assert found["zcdp"] == "refuted"
    assert found["renyi-composition"] == "verified"


def test_what_a_refuted_claim_does_not_give_is_proved_by_itself():
    """Bounds that are no better than the claim's are what follows from it, where it is proved."""
    certificate = certificate_of()
    proof = prove(replace(certificate, epsilon=lowered(certificate.epsilon), mu=None, curve=()), every=True)
    assert (proof.outcome, proof.worst) == ("refuted", "refuted")
    assert {one.outcome for one in proof.others} == {"verified"}


def test_mu_is_claimed_too():
    certificate = certificate_of()
    assert certificate.mu == pytest.approx(0.25)
    proof = prove(replace(certificate, mu=lowered(certificate.mu)))
    assert (proof.outcome, proof.why) == ("not decided", "mu = 0.25 was not proved: another bound may give less")
    assert prove(replace(certificate_of(DRAWN), mu=5.0)).why == "mu = 5 was not proved: the bound is not a GDP bound"


def test_other_epsilons_are_kept_beside_a_certificate(tmp_path):
    path = tmp_path / "certificate.json"
    certificate = certificate_of()
    certificate.write(path)
    proof = prove(certificate, every=True)
    proof_path(path).write_text(proof.to_json(path.read_bytes()))
    assert read_proof(path, path.read_bytes()) == proof
    page = certificate_page(certificate, proof=proof, recorded=True)
    assert f"and {len(proof.others)} of {len(proof.others)} other numbers" in page
    data = json.loads(proof_path(path).read_text())
    data["others"][0] |= {"others": data["others"][1:2]}
    proof_path(path).write_text(json.dumps(data))
    with pytest.raises(InputError, match="unknown keys"):
        read_proof(path, path.read_bytes())


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "something"},
        {"format": 2},
        {"format": 3},
        {"certificate_sha256": None},
        {"others": []},
        {"format": 2, "others": {}},
        {"format": 2, "others": [{"outcome": "verified"}]},
        {"outcome": "true"},
        {"versions": []},
        {"digits": "many"},
        {"epsilon": float("inf")},
        {"bound": "a\x1b[31m"},
        {"more": 1},
    ],
)
def test_a_file_that_is_no_proof(tmp_path, change):
    path = tmp_path / "certificate.json"
    certificate = certificate_of()
    certificate.write(path)
    data = {**json.loads(prove(certificate).to_json(path.read_bytes())), **change}
    proof_path(path).write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"certificate\.proof\.json: .* Remove it, or verify the certificate again with --save\.$"):
        read_proof(path, path.read_bytes())


def test_the_page_says_so():
    certificate = certificate_of()
    proof = prove(certificate)
    assert "Proved a second time" not in certificate_page(certificate)
    page = certificate_page(certificate, proof=proof)
    assert f"Proved a second time</strong> to {proof.digits} digits" in page
    assert "python-flint" in page
    recorded = certificate_page(certificate, proof=proof, recorded=True)
    assert "A record beside the certificate says" in recorded
    assert "Proved a second time" not in recorded
    assert "Refuted." in certificate_page(certificate, proof=replace(proof, outcome="refuted"))
    undecided = certificate_page(certificate, proof=replace(proof, outcome="not decided", why="<b>of a reason</b>"))
    assert "did not decide: &lt;b&gt;of a reason" in undecided
    assert isinstance(proof, Proof)
