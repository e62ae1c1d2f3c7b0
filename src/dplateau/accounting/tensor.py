"""The composition of several guarantees on the same records.

Each may be made after a look at what the earlier ones released, as long as which guarantees there are is fixed in advance
(``docs/proofs/exact-composition.md``, section 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dplateau.accounting.composition import ExactComposition, GaussianDP, Guarantee
from dplateau.accounting.renyi import RenyiDP
from dplateau.accounting.terms import Composition, Repeated, Term

Directions = tuple[Composition, ...]


def merged(parts: Sequence[Directions]) -> Directions:
    """The composition of all, direction by direction; what is symmetric counts in both. Equal laws are counted together."""
    count = max(len(part) for part in parts)
    return tuple(_joined([part[i] if len(part) > 1 else part[0] for part in parts]) for i in range(count))


def _joined(compositions: Sequence[Composition]) -> Composition:
    counts: dict[object, int] = {}
    families: list[Term] = []
    for term in (term for composition in compositions for term in composition.terms):
        if isinstance(term, Repeated):
            counts[term.law] = counts.get(term.law, 0) + term.count
        else:
            families.append(term)
    repeated = [Repeated(law, count) for law, count in counts.items()]  # type: ignore[arg-type]
    return Composition((*repeated, *families), math.hypot(*(composition.gaussian for composition in compositions)))


def _exact(guarantee: Guarantee) -> ExactComposition | None:
    """The guarantee as a composition of dominating pairs, where it is one."""
    if isinstance(guarantee, GaussianDP):
        return ExactComposition((Composition((), guarantee.parameter),))
    return guarantee if isinstance(guarantee, ExactComposition) else None


def tensor(guarantees: Sequence[Guarantee]) -> Guarantee:
    """What guarantees on the same records give together."""
    if len(guarantees) == 1:
        return guarantees[0]
    exact = [_exact(guarantee) for guarantee in guarantees]
    if all(one is not None for one in exact):
        known = [one for one in exact if one is not None]
        below = merged([one.below or one.directions for one in known]) if any(one.below for one in known) else ()
        directions = merged([one.directions for one in known])
        if not any(direction.terms for direction in directions):
            return GaussianDP(directions[0].gaussian)
        return ExactComposition(directions, below, min(one.width for one in known))
    renyi = [guarantee for guarantee in guarantees if isinstance(guarantee, RenyiDP)]
    if len(renyi) == len(guarantees) and len({one.classical for one in renyi}) == 1:
        return RenyiDP(merged([one.directions for one in renyi]), renyi[0].classical)
    raise NotImplementedError("to come: other currencies")
