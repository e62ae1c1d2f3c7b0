"""``dplateau report``: a certificate as a page for a reviewer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dplateau.cli import options as o
from dplateau.cli.output import busy, printable, show, show_json
from dplateau.spec.errors import ContradictionError, InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dplateau.certificate import Certificate
    from dplateau.ledger import Charge

File = Annotated[Path, o.CERTIFICATE]
Output = Annotated[Path | None, o.output("The page, .html (default: beside the certificate). An existing page is replaced.")]


Ledger = Annotated[
    str | None,
    o.option(
        "Refuse a certificate that was not paid for in this ledger: see dplateau ledger.", o.GUARANTEE, "--ledger", metavar="URL"
    ),
]
Verify = Annotated[
    bool, o.flag("Prove its epsilon again in ball arithmetic, and say so on the page: see dplateau verify.", o.RESULT, "--verify")
]

Every = Annotated[
    bool, o.flag("With --verify: prove its other epsilons, and how much attackers detect at most, too.", o.RESULT, "--all")
]


def report(
    certificate: File,
    output: Output = None,
    *,
    signed_by: o.SignedBy = None,
    ledger: Ledger = None,
    verify: Verify = False,
    every: Every = False,
    json: o.Json = False,
) -> int:
    """Make a page of a certificate: what is protected, against whom, and under which assumptions.

    Writes one HTML file that loads nothing from elsewhere, for a reviewer who
    has never seen dplateau. The certificate is recomputed. If it does not agree,
    certifies nothing, or was changed after it was signed, the page says so at
    the top, and the exit status is 1. No page is written if entries of the file
    contradict each other, if the certificate is beside a model that it is not
    about, or if it does not meet --signed-by or --ledger.

    For example:

    dplateau report adult-model/certificate.json --output certificate.html
    """
    from rich.console import Group
    from rich.text import Text

    from dplateau.certificate import prove, read_proof, read_signed
    from dplateau.certificate.keys import named_keys
    from dplateau.certificate.read import certificate_file
    from dplateau.files import read_whole
    from dplateau.report.page import check_page, write_page
    from dplateau.report.text import headline, other_numbers, proof_line, signature_line, verdict_line

    if every and not verify:
        raise InputError("--all says how much --verify proves: give both.")
    wanted = named_keys(signed_by) if signed_by else None
    certificate = certificate_file(certificate)
    content = read_whole(certificate)
    read, signed = read_signed(certificate, content)
    if wanted is not None:
        signed.check(certificate, wanted)
    charges = None if ledger is None else _charges(read, certificate, ledger)
    path = check_page(certificate.with_suffix(".html") if output is None else output)
    if path.exists() and path.samefile(certificate):
        raise InputError(f"{path} is the certificate itself, which the page would replace: choose another file with --output.")
    with busy("recomputing the certificate"):
        proof = prove(read, every=every) if verify else read_proof(certificate, content)
        verdict = write_page(read, path, signed, proof, recorded=not verify)
    certifies = verdict.certifies and signed.matches and (proof is None or proof.worst != "refuted")
    if json:
        show_json(
            {
                "page": str(path),
                "certifies": certifies,
                "signature": signed.to_dict(),
                "proof": proof and {**proof.to_dict(), "recorded": not verify},
                "ledger": charges and [charge.to_dict() for charge in charges],
                "agrees": verdict.agrees,
                "epsilon": verdict.recomputed,
                "delta": verdict.delta,
                "differences": verdict.to_dict()["differences"],
            }
        )
    else:
        size = path.stat().st_size / 1e3
        lines: list[RenderableType] = [verdict_line(read, verdict, signed), signature_line(signed, good=verdict.certifies)]
        if not signed.matches:
            lines.reverse()
        lines += [proof_line(proof, recorded=not verify, good=certifies)] if proof else []
        lines += other_numbers(proof) if proof and verify else []
        lines += [Text(_said(charge)) for charge in charges or ()]
        if certifies:
            lines.insert(0, headline(verdict.recomputed, read.delta, read.run.n, read.status, good=True))
        show(Group(*lines, Text(f"written to {printable(path)}, {size:.0f} kB", "dim")))
    return 0 if certifies else 1


def _charges(certificate: Certificate, path: Path, url: str) -> list[Charge]:
    """The reservations that paid for a certificate; raises ``ContradictionError`` where none did."""
    from dplateau.ledger import Ledger

    found = Ledger(url).charges(certificate)
    if not found:
        raise ContradictionError(
            f"{path} is in no entry of the ledger: nobody has committed a training with this certificate there. Ask who trained,"
            " and check that this is the right ledger."
        )
    return found


def _said(charge: Charge) -> str:
    """Who paid for it, and when."""
    data = charge.to_dict()
    purpose = f", for {data['purpose']}" if data["purpose"] else ""
    return printable(
        f"entry {data['reserved']} of account {data['account']}: reserved by {data['who']} on {data['reserved_at'][:10]}{purpose};"
        f" committed in entry {data['committed']}"
    )
