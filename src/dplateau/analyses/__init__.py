"""One published theorem a file: what it requires of a run, and what it then says."""

from dplateau.analyses.adaptive_noise import AdaptiveNoise as AdaptiveNoise
from dplateau.analyses.advanced_composition import AdvancedCompositionAnalysis as AdvancedCompositionAnalysis
from dplateau.analyses.altschuler_talwar_sgd import NoisySgd as NoisySgd
from dplateau.analyses.altschuler_talwar_sgd import NoisySgdSchedule as NoisySgdSchedule
from dplateau.analyses.altschuler_talwar_sgd import NoisySgdStronglyConvex as NoisySgdStronglyConvex
from dplateau.analyses.asymmetric_clt import AsymmetricClt as AsymmetricClt
from dplateau.analyses.base import Analysis as Analysis
from dplateau.analyses.exact_composition import ExactCompositionAnalysis as ExactCompositionAnalysis
from dplateau.analyses.fixed_order import FixedOrder as FixedOrder
from dplateau.analyses.gdp_clt import GdpClt as GdpClt
from dplateau.analyses.langevin import Langevin as Langevin
from dplateau.analyses.noisy_cgd import NoisyCgd as NoisyCgd
from dplateau.analyses.noisy_gd import NoisyGd as NoisyGd
from dplateau.analyses.noisy_sgd_asymptotic import NoisySgdPlateau as NoisySgdPlateau
from dplateau.analyses.noisy_sgd_asymptotic import NoisySgdStronglyConvexPlateau as NoisySgdStronglyConvexPlateau
from dplateau.analyses.noisy_sgd_asymptotic import burn_in as burn_in
from dplateau.analyses.pnsgd import Pnsgd as Pnsgd
from dplateau.analyses.refuted.langevin_minibatches import LangevinMinibatches as LangevinMinibatches
from dplateau.analyses.refuted.printed_noisy_sgd import PrintedNoisySgd as PrintedNoisySgd
from dplateau.analyses.refuted.printed_noisy_sgd import PrintedNoisySgdSchedule as PrintedNoisySgdSchedule
from dplateau.analyses.refuted.printed_noisy_sgd import PrintedNoisySgdStronglyConvex as PrintedNoisySgdStronglyConvex
from dplateau.analyses.renyi_composition import MomentsAccountant as MomentsAccountant
from dplateau.analyses.renyi_composition import RenyiComposition as RenyiComposition
from dplateau.analyses.sampled_last_iterate import SampledLastIterate as SampledLastIterate
from dplateau.analyses.sampled_last_iterate import SampledLastIterateRenyi as SampledLastIterateRenyi
from dplateau.analyses.shifted_interpolation import ShiftedCgd as ShiftedCgd
from dplateau.analyses.shifted_interpolation import ShiftedCgdBounded as ShiftedCgdBounded
from dplateau.analyses.shifted_interpolation import ShiftedGd as ShiftedGd
from dplateau.analyses.shifted_interpolation import ShiftedGdBounded as ShiftedGdBounded
from dplateau.analyses.shuffled import Shuffled as Shuffled
from dplateau.analyses.ye_shokri import ShuffleAndPartition as ShuffleAndPartition
from dplateau.analyses.zcdp import Zcdp as Zcdp

ANALYSES: tuple[Analysis, ...] = (
    ExactCompositionAnalysis(),
    FixedOrder(),
    Shuffled(),
    SampledLastIterate(),
    SampledLastIterateRenyi(),
    RenyiComposition(),
    MomentsAccountant(),
    Zcdp(),
    AdvancedCompositionAnalysis(),
    AdaptiveNoise(),
    Pnsgd(),
    NoisyGd(),
    NoisyCgd(),
    NoisySgd(),
    NoisySgdStronglyConvex(),
    NoisySgdSchedule(),
    Langevin(),
    ShuffleAndPartition(),
    ShiftedGd(),
    ShiftedGdBounded(),
    ShiftedCgd(),
    ShiftedCgdBounded(),
    AsymmetricClt(),
    GdpClt(),
    NoisySgdPlateau(),
    NoisySgdStronglyConvexPlateau(),
    PrintedNoisySgd(),
    PrintedNoisySgdStronglyConvex(),
    PrintedNoisySgdSchedule(),
    LangevinMinibatches(),
)
"""Every analysis that ``account`` asks: the general ones, the papers' own, approximations, and what was refuted."""
