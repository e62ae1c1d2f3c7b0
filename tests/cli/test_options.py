"""Every command that takes a run takes all of it."""

import dataclasses

import pytest
from typer.main import get_command

from dplateau.cli.main import app
from dplateau.cli.options import DESCRIBES, LOSSES, MODELS
from dplateau.losses import named
from dplateau.spec import SAMPLINGS, Run
from dplateau.spec.names import KINDS


@pytest.mark.parametrize("name", ["account", "calibrate", "plot-plateau"])
def test_no_option_of_a_run_is_missing(name):
    options = {option.name for option in get_command(app).commands[name].params}
    assert set(DESCRIBES) <= options


def test_every_field_of_a_run_has_an_option():
    assert {field.name for field in dataclasses.fields(Run)} - {"update"} == set(DESCRIBES) - {"batch_size", "epochs"}


def test_names_that_are_listed_without_loading_anything_are_those_of_the_library():
    assert set(KINDS) == set(SAMPLINGS)
    assert (set(MODELS), set(LOSSES)) == (set(named.MODELS), set(named.LOSSES))
