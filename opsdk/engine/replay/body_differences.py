"""The fields in which the body of a replayed request differs from the recorded one. Pure."""

from __future__ import annotations

import json
from typing import Final

from opsdk.base.shortened import shortened
from opsdk.engine.differences import Difference, differences
from opsdk.engine.replay.hidden_values import has_digest
from opsdk.structured_merge.value import JsonValue

__all__ = ["body_differences"]

_MAX_SHOWN: Final = 5
_LONGEST: Final = 80
_VALUES: Final = ("data", "stringData")


def body_differences(recorded: bytes, replayed: bytes) -> tuple[str, ...]:
    """Return the fields that differ, with both values. Those that the recording hides are left out.

    >>> body_differences(b'{"data":{"at":"9:00","a":1}}', b'{"data":{"at":"9:05","a":1}}')
    ("data.at: recorded '9:00', replayed '9:05'",)
    >>> body_differences(b"", b"text")
    ()
    """
    before, after = _tree(recorded), _tree(replayed)
    if before is None or after is None:
        return ()
    is_secret = isinstance(after, dict) and after.get("kind") == "Secret"
    lines = [
        _line(each, is_hidden=is_secret and each.path.startswith(_VALUES))
        for each in differences({"": before}, {"": after})
        if not has_digest(json.dumps(each.old).encode())
    ]
    more = len(lines) - _MAX_SHOWN
    return (*lines[:_MAX_SHOWN], *([f"and {more} more fields"] if more > 0 else []))


def _line(difference: Difference, *, is_hidden: bool) -> str:
    path = difference.path.lstrip(".") or "the body"
    if is_hidden:
        return f"{path}: another value, which is not shown"
    return f"{path}: recorded {_text(difference.old)}, replayed {_text(difference.new)}"


def _text(value: JsonValue) -> str:
    return "nothing" if value is None else shortened(repr(value), _LONGEST)


def _tree(body: bytes) -> JsonValue:
    try:
        tree: JsonValue = json.loads(body)
    except ValueError:
        return None
    return tree
