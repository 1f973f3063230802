"""The sizes of large stored objects. Without them, each request to such an object encodes it to learn its size."""

from __future__ import annotations

from typing import Final

import msgspec

from opsdk.aio.large_work import LARGE_BYTES
from opsdk.structured_merge.value import JsonObject

_REMEMBERED: Final = 10_000
"""Objects; the oldest one is forgotten, and measured again at its next request."""
_encode = msgspec.json.Encoder().encode
_NOTHING: Final[JsonObject] = {}


class LargeObjects:
    """The bytes of large objects when they were last encoded.

    Attributes:
        sizes: by uid. While it is empty, hot paths need no call.
    """

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._limit = limit
        self.sizes: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<LargeObjects: {len(self.sizes)}>"

    def size(self, obj: JsonObject) -> int | None:
        """Return the bytes of an object; None if it was small, or is not known."""
        return self.sizes.get(obj.get("metadata", _NOTHING).get("uid", ""))

    def note(self, obj: JsonObject, size: int) -> None:
        """The object was encoded to so many bytes."""
        uid = obj.get("metadata", _NOTHING).get("uid", "")
        if size > LARGE_BYTES and uid:
            self.sizes[uid] = size
            if len(self.sizes) > self._limit:
                del self.sizes[next(iter(self.sizes))]
        elif uid in self.sizes:
            del self.sizes[uid]

    def measure(self, obj: JsonObject) -> int:
        """Encode an object, note its bytes, and return them."""
        size = len(_encode(obj))
        self.note(obj, size)
        return size


LARGE_OBJECTS: Final = LargeObjects()
"""Of the process."""
