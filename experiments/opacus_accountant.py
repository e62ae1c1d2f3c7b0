"""Opacus with this library's accountant: how much noise each accountant asks for, and what a training really costs.

    pip install torch==2.13.0 opacus==1.6.0
    python experiments/opacus_accountant.py [--epsilon 1] [--epochs 3] [--json FILE]

Networks on the bundled rows of UCI Adult, trained by Opacus with Poisson batches of about 256 rows. For each of Opacus's own
accountants and ours: the noise that ``make_private_with_epsilon`` chooses, to Opacus's 0.01 in epsilon; what the finished training
cost by that accountant; what it cost exactly; how long a reading of epsilon takes; and the accuracy on Adult's test set, which
varies with the seed by more than the accountants differ.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from opacus import PrivacyEngine  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

import dplateau as dp
from dplateau.data import Dataset, load_dataset, sample_path
from dplateau.interchange.opacus import from_opacus

DELTA, BATCH, NORM = 1e-5, 256, 1.0
ACCOUNTANTS = ("dplateau", "prv", "rdp")


def tensors(data: Dataset) -> tuple[Any, Any]:
    return torch.tensor(np.asarray(data.features)), torch.tensor(np.asarray(data.target)).long()


def model(kind: str, features: int) -> nn.Module:
    if kind == "linear":
        return nn.Linear(features, 2)
    return nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 2))


def train(kind: str, accountant: str, epsilon: float, epochs: int, rows: Any, target: Any) -> tuple[nn.Module, PrivacyEngine]:
    module = model(kind, rows.shape[1])
    data = torch.utils.data.TensorDataset(rows, target)
    engine = PrivacyEngine(accountant=accountant)
    private, optimizer, batches = engine.make_private_with_epsilon(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=2.0, momentum=0.5),
        data_loader=torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True),
        target_epsilon=epsilon,
        target_delta=DELTA,
        epochs=epochs,
        max_grad_norm=NORM,
    )
    for _ in range(epochs):
        for some, labels in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(private(some), labels).backward()
            optimizer.step()
    return module, engine


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=1.0, help="budget at delta 1e-5 (default 1)")
    parser.add_argument("--epochs", type=int, default=3, help="epochs (default 3)")
    parser.add_argument("--json", type=Path, help="also write the results here")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Secure RNG|Full backward hook|Optimal order")
    rows, target = tensors(load_dataset(sample_path("adult-train"), schema="adult"))
    test, answers = tensors(load_dataset(sample_path("adult-test"), schema="adult"))
    results: list[dict[str, Any]] = []
    print("| model | accountant | noise | its epsilon | exact epsilon | a reading | accuracy |\n|---|---|---|---|---|---|---|")
    for kind in ("linear", "mlp"):
        for accountant in ACCOUNTANTS:
            module, engine = train(kind, accountant, options.epsilon, options.epochs, rows, target)
            begin = time.perf_counter()
            stated = float(engine.get_epsilon(DELTA))
            reading = time.perf_counter() - begin
            run = from_opacus(engine.accountant, n=len(rows))
            exact = dp.account(run, DELTA).epsilon
            with torch.no_grad():
                accuracy = 100 * float((module(test).argmax(dim=1) == answers).float().mean())
            noise = engine.accountant.history[0][0]
            print(
                f"| {kind} | {accountant} | {noise:.4f} | {stated:.4f} | {exact:.4f} | {1000 * reading:.0f} ms | {accuracy:.2f} |",
                flush=True,
            )
            results.append(
                {"model": kind, "accountant": accountant, "noise": noise, "epsilon": stated, "exact": exact, "accuracy": accuracy}
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
