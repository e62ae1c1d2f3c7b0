"""Losses by name: what each kind of model minimises, and what its gradients are clipped to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from dplateau.losses.base import GeneralisedLinearLoss
from dplateau.losses.nonsmooth import Absolute, Hinge
from dplateau.losses.one_versus_rest import OneVersusRestHinge
from dplateau.losses.scalar import Huber, Logistic, SmoothedHinge, Squared
from dplateau.losses.softmax import Softmax
from dplateau.spec import InputError
from dplateau.spec.arguments import one_of

WIDTH: Final = 1.0
"""Length of the parabola at the corner of the smoothed hinge."""


class ChosenLoss(NamedTuple):
    """A loss, and the norm that its residuals are clipped to; None leaves it to the plan."""

    loss: GeneralisedLinearLoss
    residual_clip: float | None = None


def _hinge(classes: int) -> ChosenLoss:
    if classes != 2:
        raise InputError(f"loss 'hinge' is for two classes, not of {classes}: choose loss 'smoothed-hinge', or model 'logistic'.")
    return ChosenLoss(Hinge())


MODELS: Final[dict[str, dict[str, Callable[[int], ChosenLoss]]]] = {
    "logistic": {"logistic": lambda classes: ChosenLoss(Logistic() if classes == 2 else Softmax(classes))},
    "svc": {
        "smoothed-hinge": lambda classes: (
            ChosenLoss(SmoothedHinge(WIDTH)) if classes == 2 else ChosenLoss(OneVersusRestHinge(classes, WIDTH), 1.0)
        ),
        "hinge": _hinge,
    },
    # Of targets that are scaled to [-1, 1].
    "linear": {
        "squared": lambda _: ChosenLoss(Squared()),
        "huber": lambda _: ChosenLoss(Huber(0.25), 0.25),
        "absolute": lambda _: ChosenLoss(Absolute()),
    },
}
"""Kinds of models, and their losses for a number of classes; the first is the usual one."""
LOSSES: Final = {name: model for model, losses in MODELS.items() for name in losses}
"""The model of every loss."""


def loss_named(model: str, name: str | None = None, classes: int = 2, *, solver: str = "auto") -> ChosenLoss:
    """The loss of that name.

    Parameters
    ----------
    model : {"logistic", "svc", "linear"}
        What is fitted.
    name : str, optional
        By default the usual one: "logistic", "smoothed-hinge" or "squared". Solver "phased-erm" needs no smooth loss, so with two
        classes its usual one is "hinge".
    classes : int, default 2
        Their number, where there are any.
    solver : str, default "auto"
        The algorithm.

    Raises
    ------
    InputError
        There is no such model, the loss is not one of its losses, or not for so many classes.
    """
    one_of("model", model, MODELS)
    if name is None:
        name = "hinge" if (model, solver, classes) == ("svc", "phased-erm", 2) else next(iter(MODELS[model]))
    one_of("loss", name, LOSSES)
    if name not in MODELS[model]:
        raise InputError(f"loss {name!r} is of model {LOSSES[name]!r}, not {model!r}: choose one of {', '.join(MODELS[model])}.")
    return MODELS[model][name](classes)
