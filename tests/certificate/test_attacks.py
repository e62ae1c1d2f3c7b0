"""What pages say of attackers is proved by one epsilon and its delta each."""

import math
import re
from fractions import Fraction

import pytest

pytest.importorskip("flint")

from scipy.special import ndtr, ndtri

import dplateau as dp
from dplateau.accounting.attack import ALARM, DIGITS, RATES, ROWS, accuracy, advantage, true_positive_rate
from dplateau.accounting.trade_offs import Gaussian
from dplateau.certificate import proof as module
from dplateau.certificate.attacks import attack_claims
from dplateau.certificate.proof import prove_attacks
from dplateau.verifier.balls import room_for_delta

FULL = dp.Run(n=10_000, sampling=dp.FullBatch(), steps=100, noise_multiplier=10.0)
DRAWN = dp.Run(n=10_000, sampling=dp.Poisson(100), steps=500, noise_multiplier=1.0)
LAST = {"step_size": 1.0, "smoothness": 1.0, "strong_convexity": 0.1, "l2": 0.1, "released": "last"}


def said(claim):
    """The number that a claim is about."""
    return float(claim.about.replace(" detected", "").replace(" of all cases", "").rsplit(" ", 1)[1])


def rows_of(claim):
    """The number of rows that it is about."""
    return int(claim.about.split(" ")[1]) if claim.about.startswith("with ") else 1


def test_gaussian_claims_are_the_exact_rates():
    report = dp.account(FULL, 1e-6)
    mu = report.mu
    first, *claims = [claim for claim in attack_claims(report) if rows_of(claim) == 1]
    exact = 2 * ndtr(mu / 2) - 1
    assert exact <= said(first) <= exact * (1 + 10.0 ** (1 - DIGITS))
    assert first.epsilon == pytest.approx(0.0, abs=1e-4)
    assert first.most - first.share == Fraction(str(said(first)))
    assert first.most + first.share == 1
    assert [claim.about.split(" ")[1] for claim in claims] == [f"{rate:g}" for rate in RATES]
    for rate, claim in zip(RATES, claims, strict=True):
        exact = ndtr(ndtri(rate) + mu)
        assert exact <= said(claim) <= exact * (1 + 10.0 ** (1 - DIGITS))
        # The epsilon is that of the most powerful test with this rate, or of its complement.
        assert claim.epsilon == pytest.approx(abs(mu * -ndtri(rate) - mu**2 / 2), rel=1e-6)


@pytest.mark.parametrize(
    "run",
    [
        FULL,
        DRAWN,
        DRAWN.replace(steps=2000, adjacency="replace"),
        DRAWN.replace(steps=200, noise_multiplier=4.0, **LAST | {"strong_convexity": 0.5, "l2": 0.5}),
        dp.compose(DRAWN, FULL),
        dp.compose(DRAWN, FULL.replace(steps=2000, **LAST)),
        DRAWN.replace(sampling=dp.FixedSize(100), steps=50, noise_multiplier=2.0),
        DRAWN.replace(sampling=dp.RandomAllocation(1000), steps=20),
        dp.Selection([FULL, FULL.replace(noise_multiplier=15.0)]),
    ],
    ids=["full", "poisson", "replace", "look back", "several", "several last", "fixed size", "allocation", "selection"],
)
def test_all_are_verified(run):
    report = dp.account(run, 1e-6)
    proofs = list(prove_attacks(report))
    assert [one.outcome for one in proofs] == ["verified"] * len(proofs)
    assert {one.bound for one in proofs} <= {bound.name for bound in report.leading}
    assert [one.about.split(",")[0] for one in proofs if rows_of(one) == 1][1:] == [f"at {rate:g} false alarms" for rate in RATES]
    for one in proofs[1:]:
        rows = rows_of(one)
        f = report.trade_off.group(rows) if rows > 1 else report.trade_off
        rate = re.search(r"at (\S+) false alarms", one.about)
        true = accuracy(f) if rate is None else true_positive_rate(f, float(rate[1]))
        assert true * (1 - 1e-12 * (rows > 1)) <= said(one) <= true * (1 + 10.0 ** (1 - DIGITS)) ** rows
    # A rate says nothing where it is 1; those that the page shows are among them.
    for rows in ROWS[1:]:
        abouts = [one.about for one in proofs if rows_of(one) == rows]
        group = report.trade_off.group(rows)
        assert len(abouts) == (true_positive_rate(group, ALARM) < 0.9999) + (accuracy(group) < 0.9999)


@pytest.mark.parametrize("run", [FULL, DRAWN], ids=["full", "poisson"])
def test_a_lower_one_is_refuted(run, monkeypatch):
    """At the epsilon that decides, delta is above what a lower rate leaves for it."""
    claims = [one for one in attack_claims(dp.account(run, 1e-6)) if said(one) < 0.998]
    lower = [one._replace(most=one.most * Fraction(999, 1000)) for one in claims]
    monkeypatch.setattr(module, "attack_claims", lambda _: lower)
    assert {one.outcome for one in prove_attacks(dp.account(run, 1e-6))} == {"refuted"}


def test_what_follows_from_a_number_that_is_not_verified_is_not_decided(monkeypatch):
    claims = list(attack_claims(dp.account(DRAWN, 1e-6)))
    wrong = next(claim for claim in claims if claim.about.startswith("with 3 rows, at"))
    forged = [one._replace(most=one.most * Fraction(999, 1000)) if one is wrong else one for one in claims]
    monkeypatch.setattr(module, "attack_claims", lambda _: forged)
    found = {one.about: (one.outcome, one.why) for one in prove_attacks(dp.account(DRAWN, 1e-6))}
    assert found.pop(wrong.about)[0] == "refuted"
    after = {about for about in found if re.match(r"with (4|5|6|7|8|9|10) rows, at", about)}
    assert len(after) == 7
    for about, (outcome, why) in found.items():
        assert outcome == ("not decided" if about in after else "verified")
        assert (why or "").startswith("it follows from a number that is not: with ") == (about in after)


def test_what_leaves_nothing_for_delta_is_not_decided(monkeypatch):
    report = dp.account(FULL, 1e-6)
    claims = [one._replace(most=one.share) for one in attack_claims(report)]
    monkeypatch.setattr(module, "attack_claims", lambda _: claims)
    assert {(one.outcome, one.why) for one in prove_attacks(report)} == {("not decided", "it leaves nothing for delta")}


def test_a_number_that_says_nothing_is_no_claim():
    loud = FULL.replace(noise_multiplier=0.01)
    assert list(attack_claims(dp.account(loud, 1e-6))) == []
    claims = list(attack_claims(dp.account(FULL, 1e-6)))
    assert all(said(claim) < 1 for claim in claims)
    assert max(map(rows_of, claims)) == 8  # The right answers of ten are .9999997, rounded up.


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.3, 5.0, 40.0])
@pytest.mark.parametrize("share", ["0", "1/1000", "1/3"])
def test_room_for_delta_is_rounded_down(epsilon, share):
    share = Fraction(share)
    most = share * Fraction(math.exp(epsilon)) + Fraction(1, 7)
    found = room_for_delta(epsilon, share, most)
    # e^epsilon as a double has an error of 2^-52 of itself at most.
    assert 1 / 7 - 2.0**-51 * math.exp(epsilon) * float(share) - 2.0**-54 <= found
    assert found <= 1 / 7 + 2.0**-51 * math.exp(epsilon) * float(share)
    assert Fraction(found) < Fraction(1, 7) or share
    assert room_for_delta(epsilon, most, share) == 0.0


def test_the_advantage_is_rounded_up():
    f = dp.account(DRAWN, 1e-6).trade_off
    assert f.delta(0.0) < advantage(f) < f.delta(0.0) + 1e-14
    assert advantage(Gaussian(0.0)) == 0.0
