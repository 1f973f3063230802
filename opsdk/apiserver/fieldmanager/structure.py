"""The structure of an object: all that the fields of a new object depend on. Pure.

Objects of a kind differ in values more than in fields. Two objects with equal structures set the same fields, so the
fields of the second are looked up.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from opsdk.structured_merge.value import JsonValue

_TEXT_LIMIT: Final = 256
_LIST_LIMIT: Final = 64
"""A structure contains the texts in lists; objects with more or longer ones are compared field by field."""
_PRESENT: Final = 1


class UnboundedStructureError(ValueError):
    """The structure is too large to be remembered."""


def structure_of(value: JsonValue, *, in_list: bool = False) -> Hashable:
    """Return the keys of objects, the elements of lists, and whether scalars are empty.

    A list element is identified by its values, so inside a list scalars count by value. Elsewhere a scalar matters only
    where it may equal the type's zero value, which is empty.

    Raises:
        UnboundedStructureError: a list or a text in a list is long.

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
        # Most values are texts that are not empty: no call for them.
        if type(item) is str and item and not in_list:
            parts.append(_PRESENT)
        else:
            parts.append(structure_of(item, in_list=in_list))
    return tuple(parts)
