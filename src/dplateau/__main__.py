"""``dplateau`` and ``python -m dplateau``."""

from dplateau.cli.process import stop_at_once


def main() -> None:
    """Run the command line and exit; Ctrl-C while it is being loaded ends it with one line, too."""
    stop_at_once()
    from dplateau.cli.main import run

    run()


if __name__ == "__main__":
    main()
