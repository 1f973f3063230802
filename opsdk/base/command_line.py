"""The command line of a program: a wrong one has an exit status of its own."""

from __future__ import annotations

import argparse
import sys
from typing import Final, NoReturn

USAGE_STATUS: Final = 64
"""The exit status of a wrong command line (EX_USAGE of sysexits.h). argparse's 2 has other meanings in opsdk."""


class CommandLineParser(argparse.ArgumentParser):
    """argparse's parser, which ends with `USAGE_STATUS` for a wrong command line. Its subcommands do so too."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and end the program."""
        self.print_usage(sys.stderr)
        self.exit(USAGE_STATUS, f"{self.prog}: error: {message}\n")
