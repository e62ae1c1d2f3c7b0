"""What somebody says of a training that ran elsewhere is said in typed facts."""

import pytest

import dplateau as dp
from dplateau.certificate import DeclaredTraining
from dplateau.spec import Generator
from dplateau.spec.assumption import Divisor

RUN = dp.Run(n=100, sampling=dp.FullBatch(), steps=1, noise_multiplier=1.0)


@pytest.mark.parametrize(
    ("assumptions", "generator", "message"),
    [
        ((Divisor(),), "AES-256-CTR, key from the operating system", "generator is of type str: expected dplateau.spec.Generator"),
        (("sums were divided by public batch sizes",), Generator("torch", "not-cryptographic"), "an assumption is of type str"),
    ],
)
def test_sentences_in_place_of_facts_are_refused(assumptions, generator, message):
    with pytest.raises(dp.InputError, match=message):
        DeclaredTraining(run=RUN, assumptions=assumptions, generator=generator)
