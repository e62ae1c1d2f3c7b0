# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import pytest

from dplateau.spec import (
    SAMPLINGS,
    Cyclic,
    FixedSize,
    FullBatch,
    InputError,
    OnePass,
    Poisson,
    RandomAllocation,
    Run,
    Sampling,
    Shuffled,
)
from dplateau.spec.sampling import sampling_from_dict


def run(sampling: Sampling, *, n: int = 100, steps: int = 5) -> Run:
    return Run(n=n, sampling=sampling, steps=steps, noise_multiplier=1.0)


def test_every_scheme_has_its_name() -> None:
    assert list(SAMPLINGS) == ["poisson", "fixed-size", "random-allocation", "cyclic", "shuffled", "one-pass", "full"]


@pytest.mark.parametrize("scheme", [Poisson, FixedSize, RandomAllocation, Cyclic, Shuffled])
def test_no_batch_is_larger_than_the_data(scheme: type[Sampling]) -> None:
    run(scheme(100))  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"batch_size 101 exceeds n = 100.*Lower batch_size"):
        run(scheme(101))  # type: ignore[call-arg]


@pytest.mark.parametrize("scheme", [FixedSize, Cyclic, Shuffled, OnePass])
def test_only_random_sizes_may_be_fractions(scheme: type[Sampling]) -> None:
    with pytest.raises(InputError, match=r"batch_size 2.5 is not a whole number"):
        scheme(2.5)  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"batch_size 2.5 is not a whole number"):
        scheme([2, 2.5])  # type: ignore[call-arg]
    assert run(Poisson(2.5)).epochs == pytest.approx(5 / 40)
    assert run(RandomAllocation(2.5)).epochs == pytest.approx(5 / 40)


@pytest.mark.parametrize("scheme", [Poisson, FixedSize, RandomAllocation, Cyclic, Shuffled, OnePass])
@pytest.mark.parametrize("size", [0, -1, "many", None, [], float("nan")])
def test_sizes_are_positive_numbers(scheme: type[Sampling], size: object) -> None:
    with pytest.raises(InputError, match="batch_size"):
        scheme(size)  # type: ignore[call-arg]


@pytest.mark.parametrize("scheme", [Poisson, FixedSize, OnePass])
def test_sequences_have_one_size_a_step(scheme: type[Sampling]) -> None:
    run(scheme([1, 2, 3, 4, 5]))  # type: ignore[call-arg]
    with pytest.raises(InputError, match="batch_size has 4 entries but the run has 5 steps"):
        run(scheme([1, 2, 3, 4]))  # type: ignore[call-arg]


@pytest.mark.parametrize("scheme", [Cyclic, Shuffled])
def test_the_batches_of_an_epoch_use_every_record_once(scheme: type[Sampling]) -> None:
    assert run(scheme([50, 30, 20]), steps=6).epochs == 2  # type: ignore[call-arg]
    with pytest.raises(InputError, match="sums to 90 but n = 100"):
        run(scheme([50, 40]))  # type: ignore[call-arg]
    assert run(scheme(30)).sampling.epoch_steps(100) == 4  # type: ignore[call-arg]


def test_one_pass_uses_no_record_twice() -> None:
    run(OnePass(20))
    run(OnePass([60, 10, 10, 10, 10]))
    with pytest.raises(InputError, match=r"needs 105 records for 5 steps but n = 100: lower batch_size or steps"):
        run(OnePass(21))
    with pytest.raises(InputError, match="needs 101 records"):
        run(OnePass([61, 10, 10, 10, 10]))


def test_epochs_become_whole_steps() -> None:
    assert Poisson(256).steps(60_000, 60) == 14_062
    assert FixedSize(30).steps(100, epochs=0.5) == 2
    assert Cyclic(30).steps(100, 2) == Shuffled(30).steps(100, 2) == RandomAllocation(30).steps(100, 2) == 8
    assert Cyclic([60, 40]).steps(100, 3) == 6
    assert OnePass(30).steps(100, 1) == 3
    assert FullBatch().steps(100, 5) == 5
    assert FullBatch().steps(100, 0.5) == 1
    for scheme in (Poisson(256), RandomAllocation(256), Shuffled(256)):
        made = Run(n=60_000, sampling=scheme, steps=scheme.steps(60_000, 15), noise_multiplier=1.0)
        assert made.epochs == pytest.approx(15, abs=0.5 / 234)


@pytest.mark.parametrize("epochs", [0, -1, float("nan"), float("inf"), "2", None, True, 10**400])
def test_epochs_are_positive_numbers(epochs: object) -> None:
    with pytest.raises(InputError, match="epochs is"):
        Poisson(10).steps(100, epochs)


def test_steps_of_epochs_that_there_are_not() -> None:
    with pytest.raises(InputError, match=r"epochs is 0\.01: that is less than half a step. Give at least 0.05"):
        Poisson(10).steps(100, 0.01)
    with pytest.raises(InputError, match="batch_size 101 exceeds n = 100"):
        Poisson(101).steps(100, 1)
    with pytest.raises(InputError, match="needs 30 records for 1 steps but n = 10"):
        OnePass(30).steps(10, 1)
    with pytest.raises(InputError, match="n is 0"):
        Shuffled(1).steps(0, 1)
    with pytest.raises(InputError, match="an entry for every step"):
        Poisson([10, 20]).steps(100, 1)
    with pytest.raises(InputError, match="the number of steps is inf"):
        Poisson(1).steps(10**300, 1e300)


def test_the_divisor_is_public() -> None:
    assert Poisson(12.5).divisors(100) == 12.5
    assert FixedSize([1, 2]).divisors(100) == (1.0, 2.0)
    assert Cyclic(30).divisors(100) == 30
    assert Shuffled([60, 40]).divisors(100) == (60.0, 40.0)
    assert OnePass(7).divisors(100) == 7
    assert FullBatch().divisors(100) == 100
    assert run(FullBatch()).is_full_batch
    assert not run(Poisson(100)).is_full_batch
    assert run(FullBatch()).epochs == 5
    assert run(Poisson([10, 20, 30, 20, 20])).epochs == pytest.approx(1.0)
    assert run(FixedSize([10, 20, 30, 20, 20])).epochs == pytest.approx(1.0)


@pytest.mark.parametrize("size", [0.004, 0.999, (20.0, 0.5, 20.0, 20.0, 20.0)])
def test_a_rate_is_no_batch_size(size: float | tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"batch_size 0\.\d+ is below 1: expected a number of records.* and not a rate"):
        run(Poisson(size))
    with pytest.raises(InputError, match=r"For a rate of 0\.004 among n = 60000 give batch_size 240\."):
        Run(n=60_000, sampling=Poisson(0.004), steps=9, noise_multiplier=1.0)
    with pytest.raises(InputError, match=r"not a rate\. Raise it\."):
        Run(n=100, sampling=Poisson(0.004), steps=9, noise_multiplier=1.0)
    assert run(Poisson(1)).sampling == Poisson(1.0)


def test_random_allocation_has_equal_shares_of_whole_epochs() -> None:
    """The number of batches is n over the size, rounded up; the divisor is what a batch then has on average."""
    for size, batches in ((30, 4), (25, 4), (26, 4), (100, 1), (1, 100), (100 / 3, 3), (100 / 7, 7), (99.9, 2)):
        scheme = RandomAllocation(size)
        assert scheme.epoch_length(100) == batches
        assert scheme.divisors(100) == pytest.approx(100 / batches)
        assert run(scheme, steps=batches).epochs == 1
        assert run(scheme).table.only.rate == pytest.approx(1 / batches)
    for n in range(1, 400):
        for batches in range(1, n + 1, 7):
            assert RandomAllocation(n / batches).epoch_length(n) == batches


def test_random_allocation_has_one_size_of_at_least_one() -> None:
    with pytest.raises(InputError, match="batch_size is a sequence: random allocation has batches of one expected size"):
        RandomAllocation([20, 30])
    with pytest.raises(InputError, match=r"batch_size 0.5 is below 1: expected a number of records"):
        run(RandomAllocation(0.5))
    scheme = RandomAllocation(12.5)
    assert sampling_from_dict(scheme.to_dict()) == scheme
    assert run(scheme).part(2, 4).sampling == scheme
