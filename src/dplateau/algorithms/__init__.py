"""Algorithms: each plans a ``Run`` from public facts and carries it out."""

from dplateau.algorithms.noisy_sgd import NoisySGD as NoisySGD
from dplateau.algorithms.noisy_sgd import plan_noisy_sgd as plan_noisy_sgd
