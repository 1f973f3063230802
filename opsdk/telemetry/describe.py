"""Errors as one line of text, and whether their traceback belongs in the log. Pure.

The traceback of an error response shows only opsdk's own calls. The traceback of a mistake in the author's code names
the line to correct.
"""

from __future__ import annotations

from opsdk.aio.containment import contain, leaf_errors
from opsdk.base.shortened import shortened
from opsdk.errors import EncodeError, OpsdkError, PanicError, SchemeError, UsageError

# Mistakes of the calling code: the traceback names the call. An object that cannot be decoded is no such mistake.
_CALLER_ERRORS = (UsageError, EncodeError, SchemeError, PanicError)
# Errors of a group that are described; a list of thousands would fill the log.
_MAX_PARTS = 5
# Groups within groups that are described.
_MAX_DEPTH = 8
# Characters of an error: a response of a server, or a command's output, may be megabytes, and each retry logs it.
_MAX_TEXT = 4096


def describe(error: BaseException) -> tuple[str, bool]:
    """Return the error in one line, and whether to log its traceback. Never raises.

    >>> from opsdk.errors import NotFoundError, RequestInfo
    >>> describe(NotFoundError("pods not found", request=RequestInfo(verb="get", resource="pods", name="web")))
    ('get pods web: 404 NotFound: pods not found', False)
    >>> describe(KeyError("image"))
    ("KeyError: 'image'", True)

    A group is described by its parts. Its traceback is logged if that of a part is. Notes follow in brackets. A text of
    more than 4,096 characters is shortened.
    """
    try:
        return shortened(_error_text(error), _MAX_TEXT), _has_traceback(error)
    except BaseException as broken:  # noqa: BLE001 - attributes of an exception of the user may raise anything
        contain(broken)
        return type(error).__name__, True


def encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: half of a surrogate pair becomes its escape.

    Bytes that were decoded with ``surrogateescape``, such as file names, become such halves.

    >>> encodable(bytes([99, 97, 102, 0xE9]).decode(errors="surrogateescape")) == "caf" + chr(92) + "udce9"
    True
    """
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """Return ``str(error)``, or why it raises, as text that UTF-8 can encode. Never raises."""
    try:
        return encodable(str(error))
    except BaseException as broken:  # noqa: BLE001 - an exception class of the user may raise anything
        contain(broken)
        return f"its text cannot be shown: {type(broken).__name__}"


def repr_of(error: BaseException | None) -> str:
    """Return ``repr(error)``, or the name of its class if that raises, as `text_of` does. Never raises."""
    try:
        return encodable(repr(error))
    except BaseException as broken:  # noqa: BLE001 - as above
        contain(broken)
        return f"{type(error).__name__}(its text cannot be shown: {type(broken).__name__})"


def _has_traceback(error: BaseException) -> bool:
    return any(not isinstance(leaf, OpsdkError) or isinstance(leaf, _CALLER_ERRORS) for leaf in leaf_errors(error))


def _error_text(error: BaseException, *, depth: int = 0) -> str:
    if isinstance(error, BaseExceptionGroup) and depth < _MAX_DEPTH:
        parts = [_error_text(part, depth=depth + 1) for part in error.exceptions[:_MAX_PARTS]]
        if (more := len(error.exceptions) - len(parts)) > 0:
            parts.append(f"{more} more errors")
        text = "; ".join(parts)
    else:
        text = shortened(text_of(error), _MAX_TEXT)
        if not isinstance(error, OpsdkError) or not text:
            text = f"{type(error).__name__}: {text}".removesuffix(": ")
    notes = [encodable(note) for note in getattr(error, "__notes__", ()) if isinstance(note, str)]
    if notes:
        text = f"{text} [{'; '.join(notes)}]"
    return " ".join(text.split())
