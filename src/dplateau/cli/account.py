"""``dplateau account``."""

from __future__ import annotations

import json

import typer

from dplateau.account import account as ask
from dplateau.cli import options as o
from dplateau.spec import Run


def account(
    n: o.N = None,
    sampling: o.SamplingOption = o.SamplingName.poisson,
    batch_size: o.BatchSize = None,
    steps: o.Steps = None,
    epochs: o.Epochs = None,
    noise_multiplier: o.Noise = None,
    clip_norm: o.ClipNorm = 1.0,
    run: o.RunFile = None,
    step_size: o.StepSize = None,
    smoothness: o.Smoothness = None,
    strong_convexity: o.Convexity = None,
    diameter: o.Diameter = None,
    adjacency: o.Adjacency = o.AdjacencyName.add_remove,
    released: o.Released = o.ReleasedName.all,
    delta: o.Delta = 1e-5,
    as_json: o.Json = False,
) -> None:
    """What a run costs: every bound with its status, and the epsilon that is certified.

    With --run certificate.json the certificate is recomputed instead; exit status 1 if it does not agree.

    Example: dplateau account --n 60000 --batch-size 256 --epochs 15 --noise-multiplier 1.3
    """
    from dplateau.report.text import console, report_text

    if run is not None:
        text, is_certificate = o.read_json(run)
        if is_certificate:
            _verify(text, as_json)
            return
        wanted = Run.from_json(text)
    else:
        rest = {"clip_norm": clip_norm, "step_size": step_size, "smoothness": smoothness, "strong_convexity": strong_convexity}
        rest |= {"diameter": diameter, "adjacency": adjacency, "released": released}
        wanted = o.spell_run(n, sampling, batch_size, steps, epochs, noise_multiplier, **rest)
    report = ask(wanted, delta)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        console().print(report_text(report))


def _verify(text: str, as_json: bool) -> None:
    """Recompute a certificate, say whether it agrees, and exit with status 1 if it does not."""
    from dplateau.report import Certificate, verify

    certificate = Certificate.from_json(text)
    verdict = verify(certificate)
    if as_json:
        facts = {"agrees": verdict.agrees, "claimed": verdict.claimed, "recomputed": verdict.recomputed, "delta": certificate.delta}
        typer.echo(json.dumps({**facts, "reason": verdict.reason}, indent=2))
    else:
        numbers = f"claimed {verdict.claimed:.6f}, recomputed {verdict.recomputed:.6f} at delta {certificate.delta:g}"
        typer.echo(f"{'agrees' if verdict.agrees else 'DOES NOT AGREE'}: {verdict.reason}.\n{numbers}")
    raise typer.Exit(0 if verdict.agrees else 1)
