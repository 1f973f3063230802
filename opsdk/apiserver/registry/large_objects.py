"""The sizes of large stored objects. Without them, each request to such an object encodes it to learn its size."""

from __future__ import annotations

from typing import Final

from opsdk.aio.large_work import LARGE_BYTES
from opsdk.structured_merge.value import JsonObject

_REMEMBERED: Final = 10_000
"""Objects; the oldest one is forgotten, and measured again at its next request."""
_NOTHING: Final[JsonObject] = {}


class LargeObjects:
    """The bytes of large objects when they were last encoded, by uid."""

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._limit = limit
        self._sizes: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<LargeObjects: {len(self._sizes)}>"

    def size(self, obj: JsonObject) -> int | None:
        """Return the bytes of an object; None if it was small, or is not known."""
        return self._sizes.get(obj.get("metadata", _NOTHING).get("uid", ""))

    def note(self, obj: JsonObject, size: int) -> None:
        """The object was encoded to so many bytes."""
        uid = obj.get("metadata", _NOTHING).get("uid", "")
        if size > LARGE_BYTES and uid:
            self._sizes[uid] = size
            if len(self._sizes) > self._limit:
                del self._sizes[next(iter(self._sizes))]
        elif uid in self._sizes:
            del self._sizes[uid]


LARGE_OBJECTS: Final = LargeObjects()
"""Of the process."""
