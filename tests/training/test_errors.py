"""Errors of a training lead to no frame that holds weights or noise: whoever logs them logs the variables, too."""

import traceback

import jax.numpy as jnp
import numpy as np
import pytest

import dplateau as dp
from dplateau.losses import Logistic, Squared
from dplateau.networks import noisy_sgd, train_network
from dplateau.spec import InputError
from dplateau.training import TrainingDiverged, TrainingInterrupted, train, train_one_pass

X, Y = np.full((40, 2), 0.3), np.ones(40)
RUN = {"n": 40, "noise_multiplier": 1.0, "clip_norm": 1.0}
SECRET = {"chunk", "noise", "drawn", "sums", "carry"}
WEIGHTS = {"state", "weights"}


def too_few_records():
    run = dp.Run(**RUN, sampling=dp.OnePass(4), steps=10, step_size=1.0)
    train_one_pass(run, Logistic(), iter([(X[:20], Y[:20]), (X[:10], Y[:10])]))


def an_interrupt():
    def progress(done, total):
        if done:
            raise KeyboardInterrupt

    train(dp.Run(**RUN, sampling=dp.FullBatch(), steps=3_000, step_size=1.0), Squared(), X, Y, progress=progress)


def a_network_that_diverges():
    run = dp.Run(**RUN | {"noise_multiplier": 1e4}, sampling=dp.Poisson(10.0), steps=4, update="post-processed")
    train_network(run, lambda p, e: ((e @ p) ** 2).sum(), jnp.ones(2), X.astype(np.float32), optimizer=noisy_sgd(3e38))


@pytest.mark.parametrize(
    ("failing", "error", "held"),
    [
        (too_few_records, InputError, SECRET | WEIGHTS),
        (an_interrupt, TrainingInterrupted, SECRET | WEIGHTS),
        (a_network_that_diverges, TrainingDiverged, SECRET),  # all its iterates are accounted for
    ],
)
def test_no_frame_of_an_error_holds_weights_or_noise(failing, error, held):
    with pytest.raises(error) as caught:
        failing()
    assert caught.value.__context__ is None
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)][2:]
    assert frames
    assert not held & {name for frame in frames for name in frame.f_locals}
