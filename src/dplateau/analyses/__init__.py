"""One published theorem a file: what it requires of a run, and what it then says."""

from dplateau.analyses.base import Analysis as Analysis
from dplateau.analyses.exact_composition import ExactCompositionAnalysis as ExactCompositionAnalysis
from dplateau.analyses.fixed_order import FixedOrder as FixedOrder
from dplateau.analyses.gdp_clt import GdpClt as GdpClt
from dplateau.analyses.renyi_composition import MomentsAccountant as MomentsAccountant
from dplateau.analyses.renyi_composition import RenyiComposition as RenyiComposition
from dplateau.analyses.sampled_last_iterate import SampledLastIterate as SampledLastIterate
from dplateau.analyses.sampled_last_iterate import SampledLastIterateRenyi as SampledLastIterateRenyi
from dplateau.analyses.shuffled import Shuffled as Shuffled

ANALYSES: tuple[Analysis, ...] = (
    ExactCompositionAnalysis(),
    FixedOrder(),
    Shuffled(),
    SampledLastIterate(),
    SampledLastIterateRenyi(),
    RenyiComposition(),
    MomentsAccountant(),
    GdpClt(),
)
"""Every analysis that ``account`` asks, in the order of its table."""
