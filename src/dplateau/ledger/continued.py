"""What a training computes that goes on where an earlier training of the same run stopped. Proof: ``docs/proofs/ledger.md``."""

from __future__ import annotations

from dplateau.spec import InputError, Run, Runs
from dplateau.spec.arguments import integer


def continued(run: Run | Runs, done: object) -> tuple[Run | Runs, int]:
    """The steps of a run from ``done`` on, as a run, and ``done`` as a number.

    Raises
    ------
    InputError
        ``done`` does not leave any steps, or what the first steps left was not paid for, or its batches are not drawn
        anew from there.
    """
    count = integer("done", done, low=0)
    if not count:
        return run, 0
    if not isinstance(run, Run):
        raise InputError("done is for one run: leave it out for several, which are reserved as a whole.")
    if count >= run.steps:
        raise InputError(f"done is {count:,}, and the run has {run.steps:,} steps: nothing is left that could be reserved.")
    if run.released != "all":
        raise InputError(
            "done is for runs that release all iterates: what the bound of a last iterate paid for hides the iterates before it, "
            'so none of them is a start. Reserve the whole run, or one with released="all".'
        )
    epoch = run.sampling.epoch_length(run.n)
    if count % epoch:
        raise InputError(
            f"done is {count:,}, and an epoch has {epoch:,} steps: {run.sampling.kind} batches go on at the beginning of an epoch. "
            f"Go on after step {count - count % epoch:,}."
        )
    return run.part(count, run.steps), count
