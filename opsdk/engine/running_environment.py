"""The environments that runs need: what `envtest.Environment` has of an API server in this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from opsdk.engine.writes import Entry
from opsdk.http.asgi_types import App
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject

__all__ = ["ForkEnvironment", "RunningEnvironment", "UserConfig", "WriteJournal"]


class WriteJournal(Protocol):
    """The journal of an environment's writes."""

    def subscribe(self, listener: Callable[[Entry], None]) -> None:
        """Call a function with each write from now on."""
        ...


class UserConfig(Protocol):
    """A user of an environment."""

    @property
    def config(self) -> RestConfig:
        """The configuration of its clients."""
        ...


class RunningEnvironment(Protocol):
    """A started environment."""

    @property
    def config(self) -> RestConfig:
        """Client configuration of an admin, with an `app`: no sockets."""
        ...

    @property
    def local_apps(self) -> dict[str, App]:
        """Applications by ``host:port`` that the server calls in process: the operator's webhooks."""
        ...

    @property
    def journal(self) -> WriteJournal:
        """The journal of all writes."""
        ...

    async def ensure_controllers(self, controllers: Collection[str]) -> None:
        """Start controllers if the environment was created without any."""
        ...


class ForkEnvironment(RunningEnvironment, Protocol):
    """A started environment that has the state of another cluster."""

    def stored(self, key: str) -> JsonObject | None:
        """Return the object with a storage key; None without one."""
        ...

    async def place(self, key: str, obj: JsonObject | None) -> None:
        """Store an object as another cluster has it; None removes the one that is there."""
        ...

    def add_user(self, user: str, *, groups: Sequence[str] = ()) -> UserConfig:
        """Add a user, whose permissions come from RBAC."""
        ...
