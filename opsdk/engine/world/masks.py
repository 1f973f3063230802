"""What an author declares that runs do not compare: fields, and kinds whose objects record the past. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["Ignored", "parse_ignored", "without_ignored"]

_FORM: Final = "write RESOURCE or RESOURCE:PATH, such as 'configmaps:data.history' or 'controllerrevisions.apps'"


class Ignored(msgspec.Struct, frozen=True):
    """A field of the objects of a resource that is not compared.

    Attributes:
        resource: such as ``configmaps``, with its group if it has one: ``deployments.apps``.
        path: of the field; empty for the whole object, and for whether it exists.
    """

    resource: str
    path: tuple[str, ...] = ()

    def is_of(self, key: str) -> bool:
        """Whether an object with a storage key is one of the resource.

        >>> Ignored("deployments.apps").is_of("apps/deployments/default/web")
        True
        """
        group, resource, *_ = key.split("/")
        return self.resource in (resource, f"{resource}.{group}")


def parse_ignored(text: str) -> Ignored:
    """Return what a text names.

    Raises:
        UsageError: it names no resource.

    >>> parse_ignored("configmaps:data.history")
    Ignored(resource='configmaps', path=('data', 'history'))
    """
    resource, colon, path = (part.strip() for part in text.partition(":"))
    if not resource or (colon and not path):
        raise UsageError(f"{text!r} names nothing to ignore: {_FORM}")
    return Ignored(resource, tuple(filter(None, path.split("."))))


def without_ignored(key: str, obj: JsonObject, ignored: Sequence[Ignored]) -> JsonObject | None:
    """Return an object without the fields that are not compared; None if nothing of it is.

    >>> without_ignored("core/configmaps/default/a", {"data": {"a": "1"}}, [parse_ignored("configmaps:data.a")])
    {'data': {}}
    """
    for each in ignored:
        if each.is_of(key):
            if not each.path:
                return None
            obj = _without(obj, each.path)
    return obj


def _without(obj: JsonObject, path: Sequence[str]) -> JsonObject:
    name, *below = path
    if name not in obj:
        return obj
    value: JsonValue = obj[name]
    rest = {key: item for key, item in obj.items() if key != name}
    if not below:
        return rest
    return {**rest, name: _without(value, below)} if isinstance(value, dict) else obj
