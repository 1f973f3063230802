"""The structure of an object: everything that determines the fields of a new object. Pure.

Objects of a kind differ in values more than in fields. Two objects with equal structures have the same field set, so
the field set of the second is cached.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from opsdk.structured_merge.value import JsonValue

_TEXT_LIMIT: Final = 256
_LIST_LIMIT: Final = 64
"""Most elements of a list. Objects with longer lists, or longer strings in lists, are compared field by field."""
_PRESENT: Final = 1


class UnboundedStructureError(ValueError):
    """The structure is too large to cache."""


def structure_of(value: JsonValue, *, in_list: bool = False) -> Hashable:
    """Return the keys of objects, the elements of lists, and whether scalars are empty.

    A list element is identified by its values, so scalars in lists count by value. Elsewhere a scalar matters only if
    it may equal the type's zero value, which is empty.

    Raises:
        UnboundedStructureError: a list, or a string in a list, is too long.

    >>> structure_of({"a": "x", "b": ""}) == structure_of({"a": "y", "b": ""})
    True
    >>> structure_of({"a": "x"}) == structure_of({"a": ""})
    False
    """
    if isinstance(value, Mapping):
        return _structure_of_map(value, in_list=in_list)
    if isinstance(value, list):
        if len(value) > _LIST_LIMIT:
            raise UnboundedStructureError
        return (list, *[structure_of(item, in_list=True) for item in value])
    if in_list and isinstance(value, str) and len(value) > _TEXT_LIMIT:
        raise UnboundedStructureError
    return (type(value), value) if in_list or not value else _PRESENT


def _structure_of_map(value: Mapping[str, JsonValue], *, in_list: bool) -> Hashable:
    parts: list[Hashable] = [*value]
    for item in value.values():
        # Most values are non-empty strings; this avoids a call for them.
        if type(item) is str and item and not in_list:
            parts.append(_PRESENT)
        else:
            parts.append(structure_of(item, in_list=in_list))
    return tuple(parts)
