"""Entry point of the ``opsdk`` command."""

from __future__ import annotations

import argparse
import sys

from opsdk.cli import why
from opsdk.cli.generate import command as generate
from opsdk.errors import OpsdkError


def main(argv: list[str] | None = None) -> int:
    """Run the command and return the exit status."""
    parser = argparse.ArgumentParser(prog="opsdk", description="Tools for operators written with opsdk.")
    commands = parser.add_subparsers(dest="command", required=True)
    generate.add_parser(commands)
    why.add_parser(commands)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except OpsdkError as error:
        print(f"opsdk: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
