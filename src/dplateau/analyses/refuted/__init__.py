"""Statements as printed that are false: kept, computed and shown, so that a reader of the paper can see what they claimed."""

from dplateau.analyses.refuted.langevin_minibatches import LangevinMinibatches as LangevinMinibatches
from dplateau.analyses.refuted.printed_noisy_sgd import PrintedNoisySGD as PrintedNoisySGD
from dplateau.analyses.refuted.printed_noisy_sgd import PrintedNoisySGDSchedule as PrintedNoisySGDSchedule
from dplateau.analyses.refuted.printed_noisy_sgd import PrintedNoisySGDStronglyConvex as PrintedNoisySGDStronglyConvex
