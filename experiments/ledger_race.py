"""Let processes compete for the last of a budget, and kill others while they write: is anything spent twice, or forgotten?

    python experiments/ledger_race.py [--rounds 1000] [--kills 200] [--processes 8] [--url sqlite:///race.db] [--json]

A round opens an account whose budget covers a random number of equal runs, and half of one more. Eight processes start at once and
reserve until they are refused. As many reservations as fit must be granted: one more would overspend, one less would be a loss.

Then a process reserves and commits in a loop, notes in a journal what it was told, and is killed (SIGKILL) at a random moment,
again and again. Every reservation and commit that it was told of must be in the ledger, and the chain must be whole.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import dplateau as dp

N, EPSILON, DELTA = 1000, 2.0, 1e-6
PLACES = 12
"""At most so many runs fit in the budget of a round."""


def run_of(cost: float) -> dp.Run:
    """A run whose squared mu is ``cost``."""
    return dp.Run(n=N, sampling=dp.FullBatch(), steps=1, noise_multiplier=cost**-0.5)


def compete(url: str, tasks: Any, start: Any, granted: Any) -> None:
    """Reserve from each account until the budget refuses."""
    while (task := tasks.recv()) is not None:
        name, cost = task
        account, count = dp.Ledger(url).account(name, who=str(os.getpid())), 0
        start.wait()
        try:
            while True:
                account.reserve(run_of(cost))
                count += 1
        except dp.BudgetError:
            granted.put(count)


def race(url: str, rounds: int, processes: int) -> dict[str, Any]:
    """Rounds in which more, or fewer, reservations were granted than fit."""
    ledger, fork = dp.Ledger(url), mp.get_context("fork")
    ledger.upgrade()
    start, granted, chance = fork.Barrier(processes), fork.Queue(), random.Random(0)
    pipes, workers = [], []
    for _ in range(processes):
        there, here = fork.Pipe(duplex=False)
        pipes.append(here)
        workers.append(fork.Process(target=compete, args=(url, there, start, granted), daemon=True))
        workers[-1].start()
    overspent = underspent = most = 0
    begin = time.perf_counter()
    for number in range(rounds):
        name, places = f"round {number}", chance.randint(1, PLACES)
        ledger.create(name, n=N, epsilon=EPSILON, delta=DELTA, notion="gaussian")
        budget = ledger.account(name).state().budget
        for pipe in pipes:
            pipe.send((name, budget / (places + 0.5)))
        counts = [granted.get(timeout=300) for _ in workers]
        state = ledger.account(name).state()
        overspent += sum(counts) > places or state.spent > budget or state.reserved != sum(counts)
        underspent += sum(counts) < places
        most = max(most, sum(count > 0 for count in counts))
    for pipe in pipes:
        pipe.send(None)
    for worker in workers:
        worker.join()
    return {
        "rounds": rounds,
        "processes": processes,
        "overspent": overspent,
        "underspent": underspent,
        "most winners in a round": most,
        "problems": len(ledger.verify()),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def live(url: str, journal: Path) -> None:
    """Reserve and commit until somebody ends it, and note what was granted."""
    account, run = dp.Ledger(url).account("killed"), run_of(1e-6)
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        reservation = account.reserve(run)
        os.write(file, f"reserved {reservation.number}\n".encode())
        reservation.commit()
        os.write(file, f"committed {reservation.number}\n".encode())


def kill(url: str, kills: int) -> dict[str, Any]:
    """What a ledger lacks of what was granted."""
    ledger, fork, chance = dp.Ledger(url), mp.get_context("fork"), random.Random(1)
    ledger.create("killed", n=N, epsilon=EPSILON, delta=DELTA, notion="gaussian")
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal"
        for _ in range(kills):
            child = fork.Process(target=live, args=(url, journal))
            child.start()
            time.sleep(chance.uniform(0.02, 0.12))
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        told = {kind: set[int]() for kind in ("reserved", "committed")}
        for line in journal.read_text().splitlines() if journal.exists() else ():
            kind, number = line.split()
            told[kind].add(int(number))
    entries = ledger.entries("killed")
    reserved = {entry.number for entry in entries if entry.kind == "reserved"}
    committed = {entry.reservation for entry in entries if entry.kind == "committed"}
    spent = ledger.account("killed").state().spent
    dp.Ledger(url).account("killed").reserve(run_of(1e-6))  # nobody holds a lock
    return {
        "kills": kills,
        "told of reservations": len(told["reserved"]),
        "reserved": len(reserved),
        "forgotten": len(told["reserved"] - reserved) + len(told["committed"] - committed),
        "under-counted": spent < 1e-6 * (1 - 1e-9) * len(reserved),
        "problems": len(ledger.verify()),
    }


def main() -> None:
    """Print both, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--url")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{folder}/privacy.db"
        found = {"race": race(url, options.rounds, options.processes), "kills": kill(url, options.kills)}
    if options.json:
        print(json.dumps(found))
        return
    for name, values in found.items():
        print(f"{name}\n" + "\n".join(f"  {key:<24}{value}" for key, value in values.items()))


if __name__ == "__main__":
    main()
