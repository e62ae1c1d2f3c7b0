"""``python -m dplateau``."""

from dplateau.cli.main import run

run()
