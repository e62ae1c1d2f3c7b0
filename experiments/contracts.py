"""The contracts of every analysis and every currency, at scale.

    python experiments/contracts.py --draws 10000 --seed 0 --journal FILE

One line of JSON a draw is appended to the journal; draws that it holds already are not made again, so that a run can be cut short
and taken up. The table at the end shows, by property, how many draws were made, how many broke the contract, and by how much upper
ends were off at worst (relative; what is allowed says ``tests/contracts/properties.py``).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import traceback
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.contracts import properties


def row(seed: int, index: int) -> dict[str, Any]:
    start = time.process_time()
    name = properties.PROPERTIES[index % len(properties.PROPERTIES)].__name__
    try:
        _, outcome = properties.check(seed, index)
    except Exception:
        found: dict[str, Any] = {"subject": "error", "violated": True, "excess": math.inf, "text": traceback.format_exc()}
    else:
        found = {"subject": outcome.name, "kind": outcome.kind, "violated": outcome.violated, "excess": outcome.excess}
        found |= {"contradicted": outcome.contradicted, "text": outcome.text if outcome.violated or outcome.excess > 1e-6 else ""}
    return {"index": index, "property": name, "seconds": round(time.process_time() - start, 3), **found}


def table(rows: list[dict[str, Any]], by: str) -> str:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in rows:
        groups[one[by]].append(one)
    head = f"{by:<32}{'draws':>7}{'violations':>12}{'contradicted':>14}{'worst exact':>13}{'worst search':>14}{'slowest, s':>12}"
    lines = [head]
    for name, group in groups.items():
        worst = [max((one["excess"] for one in group if one.get("kind") == kind), default=0.0) for kind in ("exact", "search")]
        counts = sum(one["violated"] for one in group), sum(one.get("contradicted", False) for one in group)
        slowest = max(one["seconds"] for one in group)
        lines.append(f"{name:<32}{len(group):>7}{counts[0]:>12}{counts[1]:>14}{worst[0]:>13.2g}{worst[1]:>14.2g}{slowest:>12.1f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path, default=Path("contracts.jsonl"))
    parser.add_argument("--part", default="0/1", help="K/M: indices K modulo M, for processes with a journal each")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.journal.read_text().splitlines()] if given.journal.exists() else []
    done, (part, parts) = {one["index"] for one in rows}, map(int, given.part.split("/"))
    with given.journal.open("a") as journal:
        for index in range(part, given.draws, parts):
            if index not in done:
                rows.append(row(given.seed, index))
                journal.write(json.dumps(rows[-1]) + "\n")
                journal.flush()
                print(f"{len(rows)} draws, {sum(one['violated'] for one in rows)} violations", file=sys.stderr, end="\r")
    print(table(rows, "property"), table(rows, "subject"), sep="\n\n")
    for one in rows:
        if one["violated"]:
            print(f"\n{one['index']} {one['property']} {one['subject']} off by {one['excess']:.3g}\n  {one['text'][:1500]}")


if __name__ == "__main__":
    main()
