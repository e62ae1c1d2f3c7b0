"""Kill trainings that are charged to a ledger, at random moments: has any drawn a random number that was not paid for?

    python experiments/ledger_kills.py [--kills 50] [--json]

Each training runs in a process of its own, which writes into a journal, to the disk, just before it draws its first number. It is
killed (SIGKILL) at a random moment after its start. Every training in the journal must have a reservation, every reservation stays,
and the chain must be whole.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dplateau as dp

N, STEPS = 2000, 20_000
TRAINING = """
import os, sys
import numpy as np
import dplateau as dp
from dplateau.losses import Logistic
from dplateau.training import SecureGenerator, train

url, name, journal = sys.argv[1:]

class Watched(SecureGenerator):
    def __getattribute__(self, what):
        draws = what in ("uniform", "normal", "integers", "permutation", "subsets", "bernoulli_positions")
        if draws and not os.path.exists(journal):
            with open(journal, "w") as file:
                file.write("drawn")
                file.flush()
                os.fsync(file.fileno())
        return super().__getattribute__(what)

rows = np.random.default_rng(0).normal(size=({n}, 5)) / 4
run = dp.Run(n={n}, sampling=dp.Poisson(100), steps={steps}, noise_multiplier=30.0, clip_norm=0.5, step_size=0.1)
print("ready", flush=True)
train(run, Logistic(), rows, rows[:, 0] > 0, generator=Watched(), ledger=dp.Ledger(url).account(name))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="trainings to kill (default 50)")
    parser.add_argument("--longest", type=float, default=2.5, help="seconds after the start of training, at most (default 2.5)")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    chance, counts = random.Random(0), {"killed": 0, "ended": 0, "drawn": 0, "reserved": 0, "committed": 0, "unpaid": 0}
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.Ledger(f"sqlite:///{folder}/privacy.db")
        for number in range(options.kills):
            name, journal = f"people {number}", Path(folder) / f"journal {number}"
            ledger.create(name, n=N, epsilon=50.0, delta=1e-5)
            code = TRAINING.format(n=N, steps=STEPS)
            process = subprocess.Popen([sys.executable, "-c", code, ledger.url, name, str(journal)], stdout=subprocess.PIPE)
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(options.longest * chance.random())
            process.send_signal(signal.SIGKILL)
            counts["killed" if process.wait() < 0 else "ended"] += 1
            state = ledger.account(name).state()
            counts["drawn"] += journal.exists()
            counts["reserved"] += state.reserved
            counts["committed"] += state.committed
            counts["unpaid"] += journal.exists() and not state.reserved
        problems = ledger.verify(costs=True)
    wrong = bool(problems or counts["unpaid"])
    if options.json:
        print(json.dumps({**counts, "problems": problems}))
    else:
        print(", ".join(f"{count} {what}" for what, count in counts.items()), "\nthe chain is", "broken" if problems else "whole")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
