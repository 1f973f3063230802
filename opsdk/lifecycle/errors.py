"""The exceptions that handlers of a `GenericController` raise, and the errors for handlers that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from opsdk.errors import OpsdkError, UsageError


class HandlerTimeoutError(OpsdkError):
    """A handler did not return within its timeout. It is cancelled and retried. The message names it."""

    retryable = True


class HandlersFailedError(OpsdkError, ExceptionGroup[Exception]):
    """Handlers of one object failed; the other handlers of that object were called.

    It is a group of the handlers' errors, so ``except*`` and the rules for conflicts and `TerminalError` apply.

    Attributes:
        names: the handlers, in the order of `exceptions`.

    >>> str(HandlersFailedError({"dns": KeyError("zone"), "quota": UsageError("no limit")}))
    "[dns] failed with : KeyError: 'zone', [quota] failed with : no limit"
    """

    names: tuple[str, ...]

    def __new__(cls, errors: Mapping[str, Exception]) -> Self:
        """Make the group. Raises ``ValueError`` without errors."""
        group = super().__new__(cls, "handlers failed", list(errors.values()))
        group.names = tuple(errors)
        return group

    def __init__(self, errors: Mapping[str, Exception]) -> None:
        super().__init__("handlers failed", list(errors.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __str__(self) -> str:
        texts = (str(e) if isinstance(e, OpsdkError) else f"{type(e).__name__}: {e}" for e in self.exceptions)
        return ", ".join(f"[{name}] failed with : {text}" for name, text in zip(self.names, texts, strict=False))


class IgnoreError(OpsdkError):
    """Raised by a handler that has nothing more to do for this event. It is not logged as an error and not retried.

    The handlers after it are called.
    """


class WrongObjectError(UsageError):
    """A handler returned an object of another kind, name or uid. The next handler gets the object as it was before."""
