"""``dplateau account``: what a run costs, or whether a certificate is right."""

from __future__ import annotations

from pathlib import Path

from dplateau.cli import options as o
from dplateau.cli.output import show, show_json
from dplateau.spec.errors import InputError


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
    signed_by = signed_by or None
    if signed_by and not run:
        raise InputError("--signed-by is for certificates: give them with --run, or leave it out.")
    start, usual = o.runs_in(run, signed_by)
    described = o.run_of(start, **given) if start is None else None  # what is wrong with it is told before anything is loaded
    from dplateau._account import account
    from dplateau.certificate import Certificate
    from dplateau.report.text import report_text

    if isinstance(start, Certificate):
        if delta is not None or any(value is not None for value in given.values()):
            raise InputError(
                "a certificate says everything about its run: leave out all options except --run, --signed-by and --json."
            )
        return _verify((run or [])[0], signed_by, json)
    report = account(described or o.run_of(start, **given), usual if delta is None else delta)
    if json:
        show_json(report.to_dict())
    else:
        show(report_text(report))
    return 0


def _verify(file: Path, signed_by: list[str] | None, json: bool) -> int:
    from dplateau.certificate import read_signed, verify
    from dplateau.certificate.keys import named_keys
    from dplateau.certificate.read import certificate_file
    from dplateau.report.text import verdict_text

    wanted = None if signed_by is None else named_keys(signed_by)
    certificate, signed = read_signed(file)
    signed.check(certificate_file(file), wanted)
    verdict = verify(certificate)
    if json:
        show_json({**verdict.to_dict(), "signature": signed.to_dict()})
    else:
        show(verdict_text(certificate, verdict, signed))
    return 0 if verdict.certifies and signed.matches else 1
