"""Entry point of the ``opsdk`` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from opsdk.base.extras import RequiredExtra
from opsdk.errors import OpsdkError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status, see `opsdk.cli.exit_status`."""
    try:
        with RequiredExtra("cli", "the command"):
            from opsdk.cli.app import app  # noqa: PLC0415 - an installation without the extra gets a sentence
        app(args=None if argv is None else list(argv), prog_name="opsdk")
    except SystemExit as end:
        if isinstance(end.code, str):
            # An operator that opsdk run started ends with its error as text.
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except OpsdkError as error:
        print("\n".join([f"opsdk: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
