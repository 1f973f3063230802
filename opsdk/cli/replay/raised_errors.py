"""Shows where in the operator's code the error of a replayed reconcile was raised."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from traceback import StackSummary, walk_tb
from types import TracebackType
from typing import Final, Self

from opsdk.aio.containment import leaf_errors

__all__ = ["RaisedErrors"]

_LOGGER: Final = logging.getLogger("opsdk.reconcile")
_PACKAGE: Final = Path(__file__).parents[2]
_MAX: Final = 100
"""Stacks that are kept, the newest ones: a replay shows the reconcile where it stops."""


class RaisedErrors(logging.Handler):
    """Keeps the stacks of the errors that a replay logs; a context manager around its runs.

    opsdk logs a traceback if the cause is code, see `opsdk.telemetry.describe`: a rejected request has none.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._stacks: dict[str, StackSummary] = {}
        """By the id of the reconcile. Frames are not kept: they would prolong the life of the operator's objects."""

    def __enter__(self) -> Self:
        _LOGGER.addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _LOGGER.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the stack of a failed reconcile."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            frames = walk_tb(next(iter(leaf_errors(error))).__traceback__)
            self._stacks[_reconcile_id(record)] = StackSummary.extract(frames, lookup_lines=False)
            if len(self._stacks) > _MAX:
                del self._stacks[next(iter(self._stacks))]

    def lines_of(self, reconcile_id: str) -> Iterator[str]:
        """Yield the traceback of a reconcile without opsdk's own frames before the operator's; nothing without one."""
        frames = list(self._stacks.get(reconcile_id, ()))
        while frames and Path(frames[0].filename).is_relative_to(_PACKAGE):
            del frames[0]
        if frames:
            yield "raised in"
            yield from "".join(StackSummary.from_list(frames).format()).splitlines()


def _reconcile_id(record: logging.LogRecord) -> str:
    return str(getattr(record, "opsdk", {}).get("reconcileID", ""))
