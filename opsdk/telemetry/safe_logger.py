"""A logger whose broken handlers never fail the caller.

A handler of the user may raise: a full disk, a queue that is closed, a formatter with a typo. `logging` lets such an
exception propagate into the code that logs, where it would end a reconcile or a worker.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any

from opsdk.aio.containment import contain

# Failures that are printed; a handler that fails for every record must not fill stderr.
_MAX_PRINTED = 3


def _traceback_text(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except RecursionError:  # groups within groups
        return type(error).__name__


class SafeLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs to the logger of this name, and prints the exception of a handler instead of raising it.

    >>> SafeLogger("opsdk.requests").debug("list %s", "pods")

    Attributes:
        failures: number of records for which a handler raised.
    """

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name), None)
        self.failures = 0
        # The logger's own method: the adapter's costs a call for each line that is not logged.
        self.isEnabledFor = self.logger.isEnabledFor  # type: ignore[method-assign]

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        """Leave message and keyword arguments as they are."""
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a record. Never raises."""
        try:
            if self.isEnabledFor(level):
                # This frame is not the caller.
                super().log(level, msg, *args, stacklevel=kwargs.pop("stacklevel", 1) + 1, **kwargs)
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything
            contain(error)
            self.failures += 1
            if self.failures <= _MAX_PRINTED and sys.stderr is not None:
                text = _traceback_text(error)
                print(f"opsdk: a log handler raised, the record is lost: {msg!r}\n{text}", file=sys.stderr)  # noqa: T201 - the log does not work

    def __repr__(self) -> str:
        return f"<SafeLogger {self.logger.name}: {self.failures} failures>"
