"""``dplateau account``: what a run costs, or whether a certificate is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dplateau.cli import options as o
from dplateau.cli.output import show, show_json
from dplateau.spec.errors import InputError

if TYPE_CHECKING:
    from dplateau.certificate import Certificate, Signed


@o.describes_a_run
def account(
    run: o.RunFiles = None,
    *,
    given: o.Given,
    delta: o.Delta = None,
    signed_by: o.SignedBy = None,
    json: o.Json = False,
) -> int:
    """Say what a run costs: every bound, its status, and the smallest proved epsilon.

    With --run and a certificate, recompute it, and say whether it agrees and
    who signed it: exit status 1 if it does not agree, or if its signature does
    not match. With several, say what they cost together, at the smallest of
    their deltas.

    For example:

    dplateau account --n 60000 --batch-size 256 --epochs 15 --noise-multiplier 1.3

    dplateau account --run adult-model/certificate.json

    dplateau account --run first/certificate.json --run second/certificate.json
    """
    if signed_by and not run:
        raise InputError("--signed-by is for certificates: give them with --run, or leave it out.")
    start, usual = o.runs_in(run, signed_by or None)
    described = o.run_of(start, **given) if start is None else None  # what is wrong with it is told before anything is loaded
    from dplateau._account import account
    from dplateau.report.text import report_text

    if isinstance(start, tuple):
        if delta is not None or any(value is not None for value in given.values()):
            raise InputError(
                "a certificate says everything about its run: leave out all options except --run, --signed-by and --json."
            )
        return _verify(*start, json)
    report = account(described or o.run_of(start, **given), usual if delta is None else delta)
    if json:
        show_json(report.to_dict())
    else:
        show(report_text(report))
    return 0


def _verify(certificate: Certificate, signed: Signed, json: bool) -> int:
    from dplateau.certificate import verify
    from dplateau.report.text import verdict_text

    verdict = verify(certificate)
    if json:
        show_json({**verdict.to_dict(), "signature": signed.to_dict()})
    else:
        show(verdict_text(certificate, verdict, signed))
    return 0 if verdict.certifies else 1
