"""``dplateau keys``: keys to sign with, and keys that are known."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dplateau.cli import options as o
from dplateau.cli.output import printable, show, show_json
from dplateau.cli.parser import Command, Commands
from dplateau.spec.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from dplateau.certificate import KnownKey

PASSPHRASE: Final = "DPLATEAU_PASSPHRASE"
"""The environment variable that is read in place of a question on the terminal."""
Name = Annotated[str, o.argument("The name of the key.", "NAME")]

keys = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    help="Make keys to sign certificates, and declare whose keys you know.",
)


@keys.command(cls=Command)
def create(
    name: Name,
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help=f"Encrypt the key; asks for a passphrase, or takes {PASSPHRASE}.")
    ] = False,
    json: o.Json = False,
) -> None:
    """Make a key to sign with, and add its public half to the known keys."""
    from dplateau.certificate import create_key

    _show_key(create_key(name, _passphrase(f"A passphrase for {name}", new=True) if passphrase else None), json)


@keys.command("list", cls=Command)
def list_(json: o.Json = False) -> None:
    """List the known keys, and since when they are known."""
    from rich.table import Table

    from dplateau.certificate import known_keys
    from dplateau.certificate.keys import has_private, keys_folder

    found = known_keys()
    if json:
        show_json({"folder": str(keys_folder()), "keys": [_data(one) for one in found]})
        return
    table = Table("name", "known since", "fingerprint", "signs here", box=None, pad_edge=False, header_style="dim")
    for one in found:
        table.add_row(one.name, one.known_since, one.fingerprint, "yes" if has_private(one.name) else "no")
    show(table if found else f"no keys are known in {keys_folder()}: see dplateau keys create and dplateau keys trust.")


@keys.command(cls=Command)
def trust(
    key: Annotated[str, o.argument("A public key, or a file that contains one.", "KEY")],
    name: Annotated[str, typer.Option("--name", help="Your name for its owner.", show_default=False, metavar="NAME")],
    json: o.Json = False,
) -> None:
    """Declare who owns a public key. Ask the owner for it, and compare fingerprints.

    A key that came with a certificate proves nothing: anybody can make one.
    """
    from dplateau.certificate import trust
    from dplateau.certificate.keys import has_private, is_locked

    passphrase = _passphrase(f"The passphrase of {name}") if has_private(name) and is_locked(name) else None
    _show_key(trust(_public_key(key), name, passphrase), json)


@keys.command(cls=Command)
def export(name: Name, json: o.Json = False) -> None:
    """Print a public key, for others to trust."""
    from dplateau.certificate.keys import known_key

    found = known_key(name)
    if json:
        show_json(_data(found))
    else:
        print(found.public_key)


@keys.command(cls=Command)
def forget(name: Name, json: o.Json = False) -> None:
    """Forget a key: its signatures count again as those of an unknown key.

    A private key is not deleted: it stays where it is, and can still sign.
    """
    from rich.console import Group

    from dplateau.certificate.keys import forget, has_private, private_path
    from dplateau.report.text import facts

    forgotten = forget(name)
    if json:
        show_json(_data(forgotten))
        return
    rows = [("forgotten", name), ("fingerprint", forgotten.fingerprint), ("was known", f"since {forgotten.known_since}")]
    if has_private(name):
        rows.append(("private key", f"stays at {printable(private_path(name))}, and can still sign"))
    show(Group(facts(*rows), "", "Its signatures now count as those of an unknown key. To trust it again:"))
    print(f"dplateau keys trust {forgotten.public_key} --name {name}")


def sign(
    certificate: Annotated[Path, o.CERTIFICATE],
    key: Annotated[str, typer.Option("--key", help="The name of the key to sign with.", show_default=False, metavar="NAME")],
    json: o.Json = False,
) -> None:
    """Recompute a certificate and sign it: writes certificate.sig.json beside it.

    For example:

    dplateau sign adult-model/certificate.json --key anna
    """
    from dplateau.certificate import read_signed
    from dplateau.certificate import sign as sign_file
    from dplateau.certificate.read import certificate_file
    from dplateau.certificate.signed import signature_path

    sign_file(certificate, key_of(key))
    written, (_, signed) = signature_path(certificate_file(certificate)), read_signed(certificate)
    if json:
        show_json({"written": str(written), "signature": signed.to_dict()})
    else:
        show(f"{signed.who}\nwritten to {printable(written)}")


def key_of(name: str) -> Ed25519PrivateKey:
    """The private key of a name; asks for its passphrase where it has one."""
    from dplateau.certificate.keys import is_locked, signing_key

    return signing_key(name, _passphrase(f"The passphrase of {name}") if is_locked(name) else None)


def _passphrase(question: str, *, new: bool = False) -> str:
    """From the environment, or from a person at a terminal."""
    if (found := os.environ.get(PASSPHRASE)) is not None:
        return found
    if not sys.stdin.isatty():
        raise InputError(f"a passphrase is needed, but there is no terminal to ask for it: set {PASSPHRASE}.")
    return typer.prompt(question, hide_input=True, confirmation_prompt=new, err=True)


def _public_key(text: str) -> str:
    """A public key, or the one in the file of that name."""
    from dplateau.certificate.signature import KEY

    path = Path(text)
    try:
        if KEY.fullmatch(text) or not path.is_file():  # a file that has a key for its name must not stand in for the key
            return text
    except OSError:  # too long for a name
        return text
    with path.open("rb") as file:
        return file.read(100).decode("utf-8", "replace").strip()


def _data(known: KnownKey) -> dict[str, Any]:
    from dplateau.certificate.keys import has_private

    return {
        "name": known.name,
        "public_key": known.public_key,
        "fingerprint": known.fingerprint,
        "known_since": known.known_since,
        "private": has_private(known.name),
    }


def _show_key(known: KnownKey, json: bool) -> None:
    from dplateau.report.text import facts

    if json:
        show_json(_data(known))
    else:
        lines = ("key", known.name), ("fingerprint", known.fingerprint), ("known since", known.known_since)
        show(facts(*lines))
