"""``dplateau label``: say what a certificate is about."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from dplateau.cli import options as o
from dplateau.cli.output import printable, show, show_json
from dplateau.spec.errors import InputError

Text = str | None


def label(
    certificate: Annotated[Path, o.CERTIFICATE],
    model: Annotated[Text, o.option("What the release is called.", o.RESULT, "--model", metavar="NAME")] = None,
    data: Annotated[Text, o.option("What the data are.", o.RESULT, "--data", metavar="NAME")] = None,
    purpose: Annotated[Text, o.option("What the release is for.", o.RESULT, "--purpose", metavar="TEXT")] = None,
    author: Annotated[Text, o.option("Who made it.", o.RESULT, "--author", metavar="NAME")] = None,
    date: Annotated[Text, o.option("The date, such as 2026-01-31 (default: today).", o.RESULT, "--date", metavar="DAY")] = None,
    json: o.Json = False,
) -> None:
    """Write into a certificate what it is about, for its page. Everybody can read it.

    Label before you sign: a signature covers every byte. An earlier label is
    replaced.

    For example:

    dplateau label adult-model --model "Income 3" --author "Ada Example"
    """
    from dplateau.certificate import Label
    from dplateau.certificate.read import certificate_file, read_signed
    from dplateau.certificate.signed import signature_path
    from dplateau.files import read_whole

    if not any((model, data, purpose, author)):
        raise InputError("no label was given: give --model, --data, --purpose or --author.")
    path = certificate_file(certificate)
    content = read_whole(path)  # first, so that a folder without one is told
    if os.path.lexists(beside := signature_path(path)):
        raise InputError(
            f"{printable(path)} is signed, and the signature would not match: remove {printable(beside)} first, and sign again."
        )
    said = Label(model, data, purpose, author, date or "")
    read_signed(path, content)[0].labelled(said).write(path)
    if json:
        show_json({"written": str(path), "label": said.to_dict()})
    else:
        show(f"written to {printable(path)}")
