"""Deep copies of JSON trees. Stored objects are immutable, so a writer copies first."""

from __future__ import annotations

from typing import Final

from opsdk.apiserver.serializer.raw import RawExtension
from opsdk.structured_merge.value import JsonValue


def copy_tree(value: JsonValue) -> JsonValue:
    """Copy dicts and lists deeply; several times faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {k: v if type(v) in _PLAIN else copy_tree(v) for k, v in value.items()}
    if isinstance(value, list):
        return [v if type(v) in _PLAIN else copy_tree(v) for v in value]
    return value


_PLAIN: Final = frozenset({str, int, float, bool, type(None), RawExtension})
"""Types that need no copy. This check saves most recursive calls. `RawExtension` is immutable."""
