"""An accountant for dp-accounting's events that is exact, and certified."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from dplateau.interchange.dp_events import UnsupportedEventError, read_event
from dplateau.interchange.noisy_sums import NoisySum, spent_delta, spent_epsilon
from dplateau.spec.missing import explained

with explained():
    import dp_accounting
    from dp_accounting import NeighboringRelation, PrivacyAccountant

ADJACENCY: Final = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "add-remove",
    NeighboringRelation.REPLACE_ONE: "replace",
    NeighboringRelation.REPLACE_SPECIAL: "add-remove",
}


class PlateauAccountant(PrivacyAccountant):
    """A ``dp_accounting.PrivacyAccountant`` whose epsilons and deltas are upper ends of enclosures of the exact composition.

    It supports Gaussian events, on all records, on Poisson samples and on samples without replacement, several on one sample, and
    any composition of these. Under ``ADD_OR_REMOVE_ONE`` there are no samples without replacement, as in dp-accounting: the
    neighbours' sizes differ, and so do the samples.

    Parameters
    ----------
    neighboring_relation : NeighboringRelation, default ADD_OR_REMOVE_ONE
        Any of dp-accounting's three.

    Examples
    --------
    >>> event = dp_accounting.PoissonSampledDpEvent(256 / 60_000, dp_accounting.GaussianDpEvent(1.3))
    >>> round(PlateauAccountant().compose(event, 3516).get_epsilon(1e-5), 4)
    0.8645
    """

    def __init__(self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        super().__init__(neighboring_relation)
        self._counts: Counter[NoisySum] = Counter()

    def _maybe_compose(self, event: dp_accounting.DpEvent, count: int, do_compose: bool) -> Any:
        try:
            blocks = read_event(event)
            if self.neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE and any(one.drawn for one, _ in blocks):
                raise UnsupportedEventError(event, "samples without replacement need REPLACE_ONE or REPLACE_SPECIAL.")
        except UnsupportedEventError as error:
            return self.CompositionErrorDetails(error.event, str(error))
        if do_compose:
            for one, times in blocks:
                self._counts[one] += count * times
        return None

    def get_epsilon(self, target_delta: float) -> float:
        """The certified epsilon of all that was composed, at ``target_delta``.

        Raises
        ------
        InputError
            ``target_delta`` is not in [0, 1].
        """
        return spent_epsilon(self._counts, ADJACENCY[self.neighboring_relation], target_delta)

    def get_delta(self, target_epsilon: float) -> float:
        """The certified delta of all that was composed, at ``target_epsilon``.

        Raises
        ------
        InputError
            ``target_epsilon`` is negative or not finite.
        """
        return spent_delta(self._counts, ADJACENCY[self.neighboring_relation], target_epsilon)
