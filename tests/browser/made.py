"""What the pages in browsers are about: certificates, a ledger, and the application that serves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dplateau as dp
from dplateau.certificate import DeclaredTraining, KnownKey, Label, Proof, Signature, Signed, make_certificate
from dplateau.report import write_page
from dplateau.spec import Generator
from dplateau.spec import assumption as a

RUN = dp.Run(n=32_561, sampling=dp.FullBatch(), steps=400, noise_multiplier=80.0, update="post-processed", released="last")
ASSUMPTIONS = (
    *(a.PublicConstants(), a.Batches(scheme="full"), a.Clipping(clip_norm=1.0), a.Divisor(), a.Noise(grid=True), a.Steps()),
    *(a.Features(), a.Arithmetic(rounding="exact"), a.PublicValidation(data="a text </script><img src=x>" + 300 * "y")),
)
GENERATORS = {"good": Generator("AES-256-CTR", "operating-system"), "seeded": Generator("insecure" + 300 * "x", "fixed-seed")}
SIGNATURE = Signature(64 * "a", "2026-01-31T12:00:00Z", 128 * "b")
SIGNED = {
    "known": Signed(SIGNATURE, KnownKey(64 * "n", SIGNATURE.public_key, "2026-01-31")),
    "unknown": Signed(SIGNATURE),
    "mismatch": Signed(SIGNATURE, matches=False),
}
LABEL = Label("Readmission within 30 days", "Visits of 2025 " + 150 * "z", "To plan beds", "Clinic North", "2026-11-23")
EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


def certificates(folder: Path) -> dict[str, Path]:
    """Pages of certificates: one that is good, one that certifies nothing, signed ones, one with a label and a proof."""
    pages = {name: folder / f"{name}.html" for name in (*GENERATORS, *SIGNED, "labelled")}
    for name, generator in GENERATORS.items():
        write_page(_certificate(generator), pages[name])
    good = _certificate(GENERATORS["good"])
    for name, signed in SIGNED.items():
        write_page(good, pages[name], signed)
    proof = Proof(
        *("verified", None, good.epsilon, good.delta, "gdp-fixed-order", good.epsilon - 1e-9, good.epsilon, 9, 0.5),
        *("2026-11-23T12:00:00Z", (("python-flint", "0.8.0"),)),
    )
    write_page(good.labelled(LABEL), pages["labelled"], SIGNED["known"], proof)
    return pages


def _certificate(generator: Generator) -> Any:
    return make_certificate(dp.account(RUN), DeclaredTraining(RUN, ASSUMPTIONS, generator))


def a_ledger(folder: Path) -> dp.Ledger:
    """A ledger with parts, trainings that did not end, long names and hostile ones."""
    found = dp.Ledger(f"sqlite:///{folder}/privacy.db")
    found.create("patients", n=60_000, epsilon=2.0, delta=1e-6, unit="person")
    found.create("a closed one, with a name that is rather long", n=100, epsilon=1.0, delta=1e-4)
    found.close("a closed one, with a name that is rather long")
    run = dp.Run(n=60_000, sampling=dp.Poisson(600), steps=1000, noise_multiplier=2.0, unit="person")
    north = found.account("patients", who="north", purpose="readmissions")
    north.reserve(run).commit()
    north.reserve(run.replace(steps=300))
    for part in ("east", "west"):
        north.reserve(run.replace(n=20_000, steps=400, noise_multiplier=3.0), part=("hospitals", part))
    for k in range(5):
        found.account("patients", who=f"team{k}" * 20, purpose="x" * 300).reserve(run.replace(steps=10 + k))
    found.account("patients", who=EVIL, purpose=EVIL).reserve(run.replace(steps=10)).commit()
    return found


@contextmanager
def serving(application: Any) -> Iterator[str]:
    """Serve an application until the end of the block; its address."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error", access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()
