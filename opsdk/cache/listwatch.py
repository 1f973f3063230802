"""The two requests that keep a store current, as a port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from opsdk.api.meta import ListMeta


class RawEvent(NamedTuple):
    """A watch event whose object is still JSON."""

    type: str
    data: bytes


class ListWatch(Protocol):
    """Lists and watches one kind in one scope."""

    async def list_page(self, *, resource_version: str, continue_: str, limit: int) -> tuple[list[bytes], ListMeta]:
        """One page: its items as JSON, and the list's metadata. Raises `OpsdkError`."""
        ...

    def watch(self, *, resource_version: str) -> AbstractAsyncContextManager[AsyncIterator[RawEvent]]:
        """Events after a revision, with bookmarks. Entering and reading raise `OpsdkError`."""
        ...

    def describe(self) -> str:
        """Verb-less words for logs and errors: ``websites.demo.opsdk.dev in namespace default``."""
        ...
