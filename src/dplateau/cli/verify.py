"""``dplateau verify``: whether a second accountant, in ball arithmetic, confirms an epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dplateau.cli import options as o
from dplateau.cli.output import busy, show, show_json
from dplateau.spec.errors import InputError

STATUS = {"verified": 0, "refuted": 1, "not decided": 2}
File = Annotated[Path | None, o.CERTIFICATE]
Epsilon = Annotated[float | None, o.option("The claim about a run: this epsilon at --delta.", o.GUARANTEE, "--epsilon")]
Delta = Annotated[float | None, o.option("The delta of that claim.", o.GUARANTEE, "--delta")]
RunFiles = Annotated[
    list[Path] | None,
    o.path_option("A serialised run, in place of a certificate; several are composed.", o.RUN, "--run"),
]
Every = Annotated[
    bool,
    o.flag(
        "Prove the certificate's other numbers, too: epsilons of its curve and of its other proved bounds, and how much attackers"
        " detect at most, which its page shows.",
        o.GUARANTEE,
        "--all",
    ),
]
Save = Annotated[
    bool, o.flag("Store the result in certificate.proof.json beside the certificate, where report finds it.", o.RESULT, "--save")
]


def verify(
    certificate: File = None,
    *,
    run: RunFiles = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    every: Every = False,
    signed_by: o.SignedBy = None,
    save: Save = False,
    json: o.Json = False,
) -> int:
    """Prove an epsilon a second time, in ball arithmetic.

    Computes what the certificate's bound gives for its run, from exact numbers
    and with a bound on every error. No numerical code is shared with the accountant
    that made the certificate. Exit status 0 if the claim is verified, 1 if it is
    refuted or the certificate certifies nothing, 2 if neither could be shown.
    Most runs take seconds. It needs python-flint, from the extra verify.

    For example:

    dplateau verify adult-model/certificate.json

    dplateau verify adult-model/certificate.json --all

    dplateau verify --run run.json --epsilon 1.2 --delta 1e-6
    """
    from dplateau.certificate import proof_path, prove
    from dplateau.certificate.read import certificate_file, read_agreed
    from dplateau.certificate.signed import UNSIGNED
    from dplateau.files import check_file, read_whole, write_file
    from dplateau.report.text import proof_text
    from dplateau.spec import Run, Runs

    if (certificate is None) == (not run):
        raise InputError("give a certificate, or --run with --epsilon and --delta.")
    read, signed = None, UNSIGNED
    with busy("proving it again"):
        if certificate is None:
            if signed_by or save or every:
                raise InputError("--signed-by, --save and --all are for certificates: leave them out.")
            start = o.runs_in(run)[0]
            if not isinstance(start, Run | Runs):
                raise InputError("a certificate is not a run: give it without --run.")
            proof = prove(start, epsilon, delta)
        else:
            path = certificate_file(certificate)
            content = read_whole(path)
            if save:
                check_file(proof_path(path))
            read, signed = read_agreed(path, signed_by or None, content)
            proof = prove(read, epsilon, delta, every=every)
            if save:
                write_file(proof_path(path), proof.to_json(content))
    certifies = read is None or read.certifies
    if json:
        show_json({**proof.to_dict(), "certifies": None if read is None else certifies and proof.verified})
    else:
        show(proof_text(proof, read, signed))
    return STATUS[proof.worst] if certifies else 1
