"""Time of importing dplateau, beside other libraries.

    python benchmarks/import_time.py

Every import runs in a fresh process; the time of a process that imports nothing is taken off. Files are in the disk cache.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec

from common import about, alternate, seconds, table

STATEMENTS = {
    "nothing": "pass",
    "import dplateau": "import dplateau",
    "from dplateau import PrivateLogisticRegression": "from dplateau import PrivateLogisticRegression",
    "import numpy, scipy.special": "import numpy, scipy.special",
    "import dp_accounting": "import dp_accounting",
    "import diffprivlib": "import diffprivlib",
    "import opacus": "import opacus",
}


def fresh(statement: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", statement], check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="alternating repeats of each (default 9)")
    options = parser.parse_args()
    print(about("numpy", "scipy", "jax", "dp-accounting", "diffprivlib", "opacus", "torch"))
    present = dict(STATEMENTS)
    for name in ("dp_accounting", "diffprivlib", "opacus"):
        if find_spec(name) is None:
            print(f'{name} is not installed, so it is left out: pip install "dplateau[peers]"')
            del present[f"import {name}"]
    times = alternate({name: fresh(statement) for name, statement in present.items()}, options.repeats, patience=60)
    bare = statistics.median(times.pop("nothing"))
    rows = [[f"`{name}`", seconds([value - bare for value in found])] for name, found in times.items()]
    print(table(["statement", f"median, beyond the {1e3 * bare:.0f} ms of bare Python"], rows))


if __name__ == "__main__":
    main()
