"""Logs calls of coroutine functions without ``await``, which Python only warns of, as errors of their reconcile.

>>> log_missing_awaits()
"""

from __future__ import annotations

import logging
import re
import warnings
from typing import TextIO

log = logging.getLogger(__name__)

_NEVER_AWAITED = re.compile(r"coroutine '(.+)' was never awaited")


def log_missing_awaits() -> None:
    """Log them from now on, with the file, the line and the fields of the reconcile. Idempotent.

    Other warnings are shown as before. Python warns once for each place, when the coroutine is freed: usually in the
    statement that called it.
    """
    previous = warnings.showwarning
    if getattr(previous, "logs_missing_awaits", False):
        return

    def show(  # noqa: PLR0917 - the arguments of warnings.showwarning
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        call = _NEVER_AWAITED.match(str(message))
        if call is None:
            previous(message, category, filename, lineno, file, line)
        else:
            log.error("%s:%d: %s() was called without await and did not run: write await before it",
                      filename, lineno, call[1])  # fmt: skip

    show.logs_missing_awaits = True  # type: ignore[attr-defined]
    warnings.showwarning = show
