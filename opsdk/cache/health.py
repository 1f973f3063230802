"""The health of an informer: one value that readiness, metrics and errors read. Pure."""

from __future__ import annotations

from enum import Enum

import msgspec

from opsdk.errors import OpsdkError


class InformerState(Enum):
    """Whether reads of an informer can be trusted."""

    STOPPED = "stopped"
    """Not started, or closed."""
    SYNCING = "syncing"
    """No list has ended yet: reads wait."""
    DENIED = "denied"
    """The server forbids the list in a namespace that `CacheOptions.namespace_selector` selects: its reads fail."""
    CURRENT = "current"
    """A watch is open, or was until a moment ago."""
    STALE = "stale"
    """Synced once, but without a watch for longer than `CacheOptions.stale_after`: reads return old objects."""


class InformerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of one informer at one moment.

    Attributes:
        name: resource and scope.
        state: see `InformerState`.
        seconds_since_contact: since the last list, event or bookmark; None before the first.
        seconds_without_watch: since the watch was lost; 0 while it is open.
        last_error: the failure that the informer recovers from, or None.
        failing_functions: user functions that raise for some objects, in words.
        function_failures: how often user functions raised so far.
        objects: number of objects in the store.
        size: bytes of these objects as JSON.
        lists: complete lists so far; a number above 1 means that the watch was interrupted for too long.
        watches: watch requests so far, streaming lists not included.
        events: watch events so far, bookmarks included.
        errors: failed lists and watches so far.
        undecodable: objects that did not decode so far.
        own_writes_seen: own writes that the watch has shown so far.
        own_write_delay: seconds from the end of these writes until the watch showed them, in all.
        rollbacks: how often the API server went back to older resource versions, for example because etcd was restored.
        resource_version: everything up to it is in the store; empty before the first list.
        lag_seconds: for how long a change has been missing in the store, see `opsdk.cache.lag`. None if it is not
            measured, or not known.
    """

    name: str
    state: InformerState
    seconds_since_contact: float | None
    seconds_without_watch: float
    last_error: OpsdkError | None
    failing_functions: tuple[str, ...]
    function_failures: int
    objects: int
    size: int = 0
    lists: int = 0
    watches: int = 0
    events: int = 0
    errors: int = 0
    undecodable: int = 0
    own_writes_seen: int = 0
    own_write_delay: float = 0.0
    rollbacks: int = 0
    resource_version: str = ""
    lag_seconds: float | None = None

    @property
    def ready(self) -> bool:
        """Whether reads return what the server had a moment ago, or fail since their namespace is denied.

        Else a label on a namespace would end the readiness of an operator, and with it that of its webhooks.
        """
        return self.state in (InformerState.CURRENT, InformerState.DENIED)

    def as_json(self) -> dict[str, object]:
        """Return all fields, and `ready`, with a JSON form."""
        fields: dict[str, object] = msgspec.structs.asdict(self)
        last_error = None if self.last_error is None else str(self.last_error)
        return {**fields, "state": self.state.value, "ready": self.ready, "last_error": last_error}

    def __str__(self) -> str:
        """Return the state and its reason in words."""
        if self.state is InformerState.STALE:
            reason = f"no watch for {self.seconds_without_watch:.0f} s: {self.last_error or 'reconnecting'}"
        elif self.state is InformerState.DENIED:
            reason = f"denied: {self.last_error}"
        elif self.state is InformerState.SYNCING:
            reason = f"has not synced: {self.last_error or 'listing'}"
        else:
            reason = self.state.value
        return f"{self.name}: {reason}"
