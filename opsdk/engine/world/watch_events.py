"""The objects in a message of a watch. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.structured_merge.value import JSON_ERRORS

__all__ = ["WatchedObject", "watched_objects"]


class WatchedObject(msgspec.Struct, frozen=True, kw_only=True):
    """One object of a message.

    Attributes:
        type: of the event, such as ``ADDED``.
        namespace: of the object; empty without one.
        name: of the object.
        revision: its resource version.
    """

    type: str
    namespace: str
    name: str
    revision: str

    @property
    def key(self) -> str:
        """Namespace and name."""
        return str(ObjectKey(self.namespace, self.name))


def watched_objects(body: bytes) -> Iterator[WatchedObject]:
    """Yield the objects in the bytes of a message. Bookmarks and errors have none.

    >>> body = b'{"type": "ADDED", "object": {"metadata": {"name": "a", "namespace": "b"}}}'
    >>> [each.key for each in watched_objects(body)]
    ['b/a']
    """
    for line in body.splitlines():
        try:
            event = msgspec.json.decode(line, type=_Event)
        except JSON_ERRORS:
            continue
        metadata = event.object.metadata
        if metadata.name:
            yield WatchedObject(
                type=event.type,
                namespace=metadata.namespace,
                name=metadata.name,
                revision=metadata.resource_version,
            )


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Event(msgspec.Struct):
    type: str = ""
    object: _Object = msgspec.field(default_factory=_Object)
