"""The status patch of functions that block."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TypeVar

from opsdk.aio.blocking import BlockingCall, current_call
from opsdk.apimachinery.object import TypedObject, Unstructured
from opsdk.client.client import Client
from opsdk.controller.status import StatusPatch

S = TypeVar("S")


class BlockingStatusPatch(StatusPatch[S]):
    """A `StatusPatch` for ``with`` in place of ``async with``.

    Args:
        client: sends the patch.
        obj: the object whose status changes.
        call: the call whose thread waits; None for the one of the running function.
    """

    def __init__(self, client: Client, obj: TypedObject | Unstructured, call: BlockingCall | None = None) -> None:
        super().__init__(client, obj)
        self._call = call

    def __enter__(self) -> Self:
        return (self._call or current_call()).wait(self.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            (self._call or current_call()).wait(self.__aexit__(None, None, None))
