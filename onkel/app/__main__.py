"""``python -m onkel.app`` is ``onkel``; without click it says what to install."""

import os
import sys


def main() -> None:
    """Run the command line."""
    if sys.stderr is None:  # closed by whoever started us: there is nobody to talk to
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        import click  # noqa: F401
    except ImportError:
        print("The command needs click: pip install 'onkel[cli]'.", file=sys.stderr)
        raise SystemExit(2) from None
    from onkel.app.cli import main as command

    command(prog_name="onkel")


if __name__ == "__main__":
    main()
