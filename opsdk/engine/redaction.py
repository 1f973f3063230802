"""Replaces the values of Secrets by a word in a plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from opsdk.apimachinery.secret_values import LAST_APPLIED
from opsdk.engine.differences import Difference
from opsdk.engine.foreign_changes import ForeignChange
from opsdk.structured_merge.value import JsonValue

_VALUES: Final = ("data", "stringData")
_HIDDEN: Final = "(hidden)"
_HIDDEN_CHANGE: Final = "(hidden, another value)"


def without_secret_values(difference: Difference) -> Difference:
    """Return the difference of a field of a Secret without values; the names of the keys stay.

    >>> print(without_secret_values(Difference("data.password", None, "aHVudA==")))
    data.password: absent -> '(hidden)'
    >>> print(without_secret_values(Difference("data", {"a": "MQ=="}, {"a": "Mg==", "b": "MQ=="})))
    data: {'a': '(hidden)'} -> {'a': '(hidden, another value)', 'b': '(hidden)'}
    """
    path, old, new = difference.path, difference.old, difference.new
    if path.partition(".")[0] in _VALUES or path.endswith(LAST_APPLIED):
        return Difference(path, _hidden(old, None), _hidden(new, old))
    if path in ("metadata", "metadata.annotations"):
        return Difference(path, _without_last_applied(old), _without_last_applied(new))
    return difference


def change_without_secret_values(change: ForeignChange) -> ForeignChange:
    """Return a change of a Secret without values; the names of the keys stay."""
    before, after = (
        {
            name: dict.fromkeys(value, word) if name in _VALUES and isinstance(value, Mapping) else value
            for name, value in tree.items()
        }
        for tree, word in ((change.before, _HIDDEN), (change.after, _HIDDEN_CHANGE))
    )
    return replace(change, before=_without_last_applied(before), after=_without_last_applied(after))


def _hidden(value: JsonValue, old: JsonValue) -> JsonValue:
    """Return a value, or the values of an object, as words that say whether they differ from the old ones."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {
            name: _hidden(item, old.get(name) if isinstance(old, Mapping) else None) for name, item in value.items()
        }
    return _HIDDEN if old is None or old == value else _HIDDEN_CHANGE


def _without_last_applied(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: _HIDDEN if name == LAST_APPLIED else _without_last_applied(item) for name, item in value.items()}
