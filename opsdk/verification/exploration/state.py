"""The state of a run as a digest: what is stored, what the operator sees and has queued, and what is under way.

Two states are the same if they differ only in times, in uids, and in what the server assigns.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from opsdk.engine.masking import masked
from opsdk.engine.net_changes import is_ignored
from opsdk.engine.world.watch_events import watched_objects
from opsdk.engine.writes import Entry
from opsdk.structured_merge.value import JsonValue

__all__ = ["StateTracker", "digest_of"]

_LEFT_OUT: Final = frozenset({"managedFields", "resourceVersion", "creationTimestamp", "selfLink"})


def digest_of(*parts: object) -> bytes:
    """Return the digest of values whose texts are equal in each process."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()


class StateTracker:
    """Follows the objects that are stored, and the views of the operator's watches."""

    def __init__(self) -> None:
        self._stored: dict[str, bytes] = {}
        self._aliases: dict[str, str] = {}
        self._created: Counter[str] = Counter()
        self._by_revision: dict[str, bytes] = {}
        self._views: dict[tuple[str, str], dict[str, bytes]] = {}

    def add(self, entry: Entry) -> None:
        """Note a stored write."""
        if is_ignored(entry):
            return
        obj = entry.after
        if obj is None:
            self._stored.pop(entry.key, None)
            self._by_revision[str(entry.revision)] = b"deleted"
            return
        if entry.before is None:
            self._created[entry.key] += 1
            # Which one it is of the objects that had this name: a reference to an earlier one is another state.
            self._aliases[obj["metadata"]["uid"]] = f"{entry.key}#{self._created[entry.key]}"
        digest = digest_of(msgspec.json.encode(masked("", self._with_aliases(obj)), order="sorted"))
        self._stored[entry.key] = self._by_revision[str(entry.revision)] = digest

    def _with_aliases(self, value: JsonValue) -> JsonValue:
        """Return an object without what each write changes, and with aliases for the uids of objects."""
        if isinstance(value, dict):
            return {
                "alias" if name == "uid" else name: self._with_aliases(item)
                for name, item in value.items()
                if name not in _LEFT_OUT
            }
        if isinstance(value, list):
            return [self._with_aliases(item) for item in value]
        return self._aliases.get(value, value) if isinstance(value, str) else value

    def begin_watch(self, client: str, path: str) -> None:
        """Note a watch that lists anew: its view begins empty."""
        self._views[client, path] = {}

    def deliver(self, client: str, path: str, body: bytes) -> None:
        """Note a message of a watch that the operator receives now."""
        view = self._views.setdefault((client, path), {})
        for each in watched_objects(body):
            key = f"{each.namespace}/{each.name}"
            if each.type == "DELETED":
                view.pop(key, None)
            else:
                view[key] = self._by_revision.get(each.revision, each.revision.encode())

    def view_of(self, client: str) -> bytes:
        """Return the digest of everything that a client has seen."""
        return digest_of(
            sorted((path, sorted(view.items())) for (watcher, path), view in self._views.items() if watcher == client)
        )

    def digest(self, clients: Iterable[str], *others: object) -> bytes:
        """Return the digest of the state.

        Args:
            clients: that run now.
            others: what else makes up the state.
        """
        views = [self.view_of(client) for client in clients]
        return digest_of(sorted(self._stored.items()), sorted(self._created.items()), views, others)
