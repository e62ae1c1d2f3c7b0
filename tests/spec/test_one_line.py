# ruff: noqa: RUF001
from __future__ import annotations

import json
import tomllib

import pytest

from dplateau.certificate import Label
from dplateau.spec import InputError
from dplateau.spec.one_line import escaped, is_printable, printable

PERSIAN, HINDI, FAMILY = "پایان\u200cنامه", "क्\u200dष", "👩\u200d👩\u200d👧"


@pytest.mark.parametrize("text", ["", "plain", "Étude\u00a0: 1", PERSIAN, HINDI, FAMILY, "ASCII " + PERSIAN, "e\u0301"])
def test_what_people_write(text: str) -> None:
    assert is_printable(text)
    assert printable(text) == text == escaped(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("al\u200cice", "al?ice"),  # looks like another name
        ("é\u200dé", "é?é"),
        ("а\u200cб", "а?б"),
        ("\u200c" + PERSIAN, "?" + PERSIAN),
        (PERSIAN + "\u200d", PERSIAN + "?"),
        ("کتاب\u200c 1", "کتاب? 1"),
        ("ن\u200c\u200cا", "ن??ا"),
        ("ن\u202eا", "ن?ا"),
        ("a\x1b[31m", "a?[31m"),
        ("a\x9bb\u2028c\u2029d\u200be\ufefff\ud800", "a?b?c?d?e?f?"),
    ],
)
def test_what_they_do_not(text: str, shown: str) -> None:
    assert not is_printable(text)
    assert printable(text) == shown


def test_escapes_are_read_back() -> None:
    for text in ("a\x1bb\u2028\U000e0041c\u202e" + PERSIAN, "al\u200cice", PERSIAN):
        line = escaped(json.dumps(text, ensure_ascii=False))
        assert tomllib.loads(f"x = {line}")["x"] == text
        assert is_printable(line)


def test_a_label_in_persian() -> None:
    assert Label(purpose=PERSIAN).purpose == PERSIAN
    with pytest.raises(InputError, match="printable"):
        Label(purpose="al\u200cice")
