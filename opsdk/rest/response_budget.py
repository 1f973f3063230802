"""How much of a response a client holds. Pure."""

from __future__ import annotations

from opsdk.base.limits import Limits
from opsdk.errors import ResponseLimitError
from opsdk.rest.request import RestRequest

_OF_OBJECTS = frozenset({"get", "create", "update", "patch", "delete"})


class ResponseBudget:
    """Counts the bytes of one body after decompression.

    Args:
        limit: the name of the limit in `Limits`.
        size: its value.
        cuts: drop what is too much, instead of an error.

    Attributes:
        full: the rest of the body is not needed.
    """

    __slots__ = ("_cuts", "_left", "_limit", "_size", "full")

    def __init__(self, limit: str, size: int, *, cuts: bool = False) -> None:
        self._limit = limit
        self._size = self._left = size
        self._cuts = cuts
        self.full = False

    @classmethod
    def of(cls, request: RestRequest, status: int, limits: Limits) -> ResponseBudget:
        """Return the budget for the response to a request.

        A failure keeps its status and the beginning of its body. Documents and subresources have the limit of lists.
        """
        if not 200 <= status < 300:
            return cls("error_bytes", limits.error_bytes, cuts=True)
        if request.verb in _OF_OBJECTS and not request.subresource:
            return cls("object_bytes", limits.object_bytes)
        return cls("list_bytes", limits.list_bytes)

    def take(self, piece: bytes) -> bytes:
        """Return the part of a piece that is kept. Raises `ResponseLimitError`."""
        self._left -= len(piece)
        if self._left >= 0:
            return piece
        if not self._cuts:
            advice = "list in smaller pages or " if self._limit == "list_bytes" else ""
            raise ResponseLimitError(
                f"the response has more than {self._size} bytes: {advice}raise {self._limit} of RestConfig.limits"
            )
        self.full = True
        remaining = max(len(piece) + self._left, 0)
        self._left = 0
        return piece[:remaining]

    def __repr__(self) -> str:
        return f"<ResponseBudget {self._limit}: {self._left} of {self._size} bytes left>"
