# pyright: basic, reportArgumentType=false
from __future__ import annotations

import json
import math
from dataclasses import fields

import pytest

from dplateau.spec import By, Generator, InputError
from dplateau.spec.assumption import KINDS, Clipping, Order, PublicValidation, assumption_from_dict


def test_assumptions_say_who_saw_to_them() -> None:
    assumption = Clipping(clip_norm=0.5)
    assert assumption.to_dict() == {"name": "clipping", "how": "declared", "by": "caller", "clip_norm": 0.5}
    assert assumption.enforced().to_dict() == {"name": "clipping", "how": "enforced", "by": "dplateau", "clip_norm": 0.5}
    assert (assumption.vouched(By.OPACUS).how, assumption.vouched(By.OPACUS).by) == ("declared", "opacus")
    assert "norm at most 0.5, exactly" in assumption.enforced().statement
    assert "exactly" not in assumption.statement
    for changes in ({"how": "hoped"}, {"by": "nobody"}, {"clip_norm": "1"}, {"clip_norm": math.nan}):
        with pytest.raises(InputError, match="assumption 'clipping'"):
            Clipping(**{"clip_norm": 0.5, **changes})


@pytest.mark.parametrize("name", KINDS)
def test_every_assumption_is_read_as_it_was_written(name: str) -> None:
    values = {"str": "poisson", "float": 0.25, "int": 3, "bool": True, "Rounding": "exact", "str | None": None}
    given = {field.name: values[str(field.type)] for field in fields(KINDS[name]) if field.name not in ("how", "by")}
    if name == "target":
        given["high"] = 1.0
    one = KINDS[name](**given)
    assert assumption_from_dict(json.loads(json.dumps(one.to_dict()))) == one
    assert len(one.statement) > 20
    assert "{" not in one.statement
    for wrong in ({**one.to_dict(), "extra": 1}, {key: value for key, value in one.to_dict().items() if key != "how"}, name, None):
        with pytest.raises(InputError):
            assumption_from_dict(wrong)


@pytest.mark.parametrize("text", ["", " \u3000", "x" * 1_001, "two\nlines", "\x1b[2J", "\u202egood", "a\u200bb", 3, b"x", ["x"]])
def test_what_is_said_is_one_printable_line(text: object) -> None:
    for say in (
        lambda: PublicValidation(data=text),
        lambda: Order(detail=text),
        lambda: Generator(text, "fixed-seed"),
        lambda: assumption_from_dict({"name": "order", "how": "declared", "by": "caller", "detail": text}),
    ):
        with pytest.raises(InputError) as caught:
            say()
        assert str(caught.value).isprintable()
    assert PublicValidation(data="x" * 1_000).data == "x" * 1_000
