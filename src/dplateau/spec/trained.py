"""``Trained``: what is asked of the result of any training."""

from __future__ import annotations

from typing import Any, Protocol

from dplateau.spec.assumption import Assumption
from dplateau.spec.facts import Generator, Training
from dplateau.spec.run import Run
from dplateau.spec.runs import Runs


class Trained(Protocol):
    """The facts of a training result that a certificate records.

    ``dplateau.training.TrainResult`` has them, so has ``dplateau.interchange.opacus_training.OpacusTraining``, and
    ``DeclaredTraining`` holds them for any other loop.
    """

    @property
    def run(self) -> Run | Runs:
        """The run, or the several ones, that were fulfilled."""
        ...

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was enforced, and what is taken on trust."""
        ...

    @property
    def generator(self) -> Generator:
        """The source of randomness."""
        ...

    @property
    def dtype(self) -> str:
        """Working precision; several ones with commas between them."""
        ...

    @property
    def training(self) -> Training:
        """What kind of training it was."""
        ...

    @property
    def weights(self) -> Any:
        """What was released, a tree of arrays; None where it is not at hand."""
        ...
