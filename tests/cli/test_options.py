"""Every command that takes a run takes all of it."""

import dataclasses

import pytest
from typer.main import get_command

from dplateau.cli.main import app
from dplateau.cli.options import DESCRIBES
from dplateau.spec import Run


@pytest.mark.parametrize("name", ["account", "calibrate", "plot-plateau"])
def test_no_option_of_a_run_is_missing(name):
    options = {option.name for option in get_command(app).commands[name].params}
    assert set(DESCRIBES) <= options


def test_every_field_of_a_run_has_an_option():
    assert {field.name for field in dataclasses.fields(Run)} - {"update"} == set(DESCRIBES) - {"batch_size", "epochs"}
