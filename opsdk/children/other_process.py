"""Notices another process of the same operator that runs without leader election. Pure but for clock and log.

Both processes see that a child is missing. One apply creates it, with the status 201; that of the other process finds
an object which only its own field manager has written, with the status 200. So nothing is written for this, and only
an apply that is to create an object is looked at.

Upstream: none.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import msgspec

from opsdk.aio.clock import utc_now
from opsdk.apimachinery.meta import ObjectMeta

log = logging.getLogger("opsdk.children")

_RECENT: Final = timedelta(minutes=1)
"""An older object is one that the cache leaves out, not one of this moment. Clocks of server and operator differ."""


class Creation(msgspec.Struct):
    """An apply that is to create an object.

    Attributes:
        senders: tasks of this process that send one for the object.
        is_shared: there was more than one at a time.
    """

    senders: int = 0
    is_shared: bool = False


class OtherProcess:
    """The creations of this process, to tell them from those of another one. It warns once."""

    def __init__(self) -> None:
        self._creations: dict[Hashable, Creation] = {}
        self._is_reported = False

    @contextmanager
    def creation(self, identity: Hashable) -> Iterator[Creation]:
        """Hold the creation of an object while its apply is under way."""
        creation = self._creations.setdefault(identity, Creation())
        creation.senders += 1
        creation.is_shared = creation.is_shared or creation.senders > 1
        try:
            yield creation
        finally:
            creation.senders -= 1
            if not creation.senders:
                del self._creations[identity]

    def check(self, creation: Creation, status: int, meta: ObjectMeta, *, field_owner: str, child: str) -> None:
        """Warn if another process has created the object.

        Args:
            creation: of the object.
            status: the HTTP status of the apply.
            meta: of the object in the response.
            field_owner: the field manager of the apply.
            child: kind, namespace and name, for the log.
        """
        managers = {entry.manager for entry in meta.managed_fields if not entry.subresource}
        created = meta.creation_timestamp
        if (
            status == 201
            or self._is_reported
            or creation.is_shared
            or managers != {field_owner}
            or created is None
            or abs(utc_now() - created) > _RECENT
        ):
            return
        self._is_reported = True
        log.warning(
            "%s: another process with the field manager %s has created it at the same time. Two processes of this "
            "operator run without leader election: stop one of them, or start both with --leader-elect",
            child,
            field_owner,
        )
