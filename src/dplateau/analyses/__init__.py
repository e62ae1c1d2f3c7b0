"""One published theorem a file: what it requires of a run, and what it then says."""

from __future__ import annotations

from typing import Final

from dplateau.analyses.adaptive_noise import AdaptiveNoiseBound as AdaptiveNoiseBound
from dplateau.analyses.advanced_composition import AdvancedCompositionBound as AdvancedCompositionBound
from dplateau.analyses.altschuler_talwar_sgd import NoisySGDBound as NoisySGDBound
from dplateau.analyses.altschuler_talwar_sgd import NoisySGDScheduleBound as NoisySGDScheduleBound
from dplateau.analyses.altschuler_talwar_sgd import NoisySGDStronglyConvexBound as NoisySGDStronglyConvexBound
from dplateau.analyses.asymmetric_clt import AsymmetricCLT as AsymmetricCLT
from dplateau.analyses.base import Analysis as Analysis
from dplateau.analyses.exact_composition import ExactCompositionBound as ExactCompositionBound
from dplateau.analyses.fixed_order import FixedOrderBound as FixedOrderBound
from dplateau.analyses.gdp_clt import GaussianCLT as GaussianCLT
from dplateau.analyses.langevin import LangevinBound as LangevinBound
from dplateau.analyses.noisy_cgd import NoisyCGDBound as NoisyCGDBound
from dplateau.analyses.noisy_gd import NoisyGDBound as NoisyGDBound
from dplateau.analyses.noisy_sgd_asymptotic import NoisySGDPlateau as NoisySGDPlateau
from dplateau.analyses.noisy_sgd_asymptotic import NoisySGDStronglyConvexPlateau as NoisySGDStronglyConvexPlateau
from dplateau.analyses.noisy_sgd_asymptotic import burn_in as burn_in
from dplateau.analyses.pnsgd import PNSGDBound as PNSGDBound
from dplateau.analyses.reflection_coupling import ReflectionCouplingBound as ReflectionCouplingBound
from dplateau.analyses.refuted.langevin_minibatches import LangevinMinibatches as LangevinMinibatches
from dplateau.analyses.refuted.printed_noisy_sgd import PrintedNoisySGD as PrintedNoisySGD
from dplateau.analyses.refuted.printed_noisy_sgd import PrintedNoisySGDSchedule as PrintedNoisySGDSchedule
from dplateau.analyses.refuted.printed_noisy_sgd import PrintedNoisySGDStronglyConvex as PrintedNoisySGDStronglyConvex
from dplateau.analyses.renyi_composition import MomentsAccountantBound as MomentsAccountantBound
from dplateau.analyses.renyi_composition import RenyiCompositionBound as RenyiCompositionBound
from dplateau.analyses.sampled_last_iterate import SampledLastIterateBound as SampledLastIterateBound
from dplateau.analyses.sampled_last_iterate import SampledLastIterateRenyiBound as SampledLastIterateRenyiBound
from dplateau.analyses.shifted_interpolation import ShiftedCGDBound as ShiftedCGDBound
from dplateau.analyses.shifted_interpolation import ShiftedCGDBoundedSetBound as ShiftedCGDBoundedSetBound
from dplateau.analyses.shifted_interpolation import ShiftedGDBound as ShiftedGDBound
from dplateau.analyses.shifted_interpolation import ShiftedGDBoundedSetBound as ShiftedGDBoundedSetBound
from dplateau.analyses.shuffled import ShuffledBound as ShuffledBound
from dplateau.analyses.ye_shokri import ShuffleAndPartitionBound as ShuffleAndPartitionBound
from dplateau.analyses.zcdp import ZCDPBound as ZCDPBound
from dplateau.spec.deprecated import moved

ANALYSES: tuple[Analysis, ...] = (
    ExactCompositionBound(),
    FixedOrderBound(),
    ShuffledBound(),
    SampledLastIterateBound(),
    SampledLastIterateRenyiBound(),
    ReflectionCouplingBound(),
    RenyiCompositionBound(),
    MomentsAccountantBound(),
    ZCDPBound(),
    AdvancedCompositionBound(),
    AdaptiveNoiseBound(),
    PNSGDBound(),
    NoisyGDBound(),
    NoisyCGDBound(),
    NoisySGDBound(),
    NoisySGDStronglyConvexBound(),
    NoisySGDScheduleBound(),
    LangevinBound(),
    ShuffleAndPartitionBound(),
    ShiftedGDBound(),
    ShiftedGDBoundedSetBound(),
    ShiftedCGDBound(),
    ShiftedCGDBoundedSetBound(),
    AsymmetricCLT(),
    GaussianCLT(),
    NoisySGDPlateau(),
    NoisySGDStronglyConvexPlateau(),
    PrintedNoisySGD(),
    PrintedNoisySGDStronglyConvex(),
    PrintedNoisySGDSchedule(),
    LangevinMinibatches(),
)
"""Every analysis that ``account`` asks: the general ones, the papers' own, approximations, and what was refuted."""

_RENAMED: Final = {
    "AdaptiveNoise": "AdaptiveNoiseBound",
    "AdvancedCompositionAnalysis": "AdvancedCompositionBound",
    "AsymmetricClt": "AsymmetricCLT",
    "ExactCompositionAnalysis": "ExactCompositionBound",
    "FixedOrder": "FixedOrderBound",
    "GdpClt": "GaussianCLT",
    "Langevin": "LangevinBound",
    "MomentsAccountant": "MomentsAccountantBound",
    "NoisyCgd": "NoisyCGDBound",
    "NoisyGd": "NoisyGDBound",
    "NoisySgd": "NoisySGDBound",
    "NoisySgdPlateau": "NoisySGDPlateau",
    "NoisySgdSchedule": "NoisySGDScheduleBound",
    "NoisySgdStronglyConvex": "NoisySGDStronglyConvexBound",
    "NoisySgdStronglyConvexPlateau": "NoisySGDStronglyConvexPlateau",
    "Pnsgd": "PNSGDBound",
    "PrintedNoisySgd": "PrintedNoisySGD",
    "PrintedNoisySgdSchedule": "PrintedNoisySGDSchedule",
    "PrintedNoisySgdStronglyConvex": "PrintedNoisySGDStronglyConvex",
    "RenyiComposition": "RenyiCompositionBound",
    "SampledLastIterate": "SampledLastIterateBound",
    "SampledLastIterateRenyi": "SampledLastIterateRenyiBound",
    "ShiftedCgd": "ShiftedCGDBound",
    "ShiftedCgdBounded": "ShiftedCGDBoundedSetBound",
    "ShiftedGd": "ShiftedGDBound",
    "ShiftedGdBounded": "ShiftedGDBoundedSetBound",
    "ShuffleAndPartition": "ShuffleAndPartitionBound",
    "Shuffled": "ShuffledBound",
    "Zcdp": "ZCDPBound",
}


__getattr__ = moved(__name__, {old: f"{__name__}.{new}" for old, new in _RENAMED.items()})
