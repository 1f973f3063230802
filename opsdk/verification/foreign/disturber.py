"""Lets one thing go wrong in a run in real time, at the place that its disturbance names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qs, urlencode

from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.faults import Fault
from opsdk.engine.writes import Entry
from opsdk.http.asgi_types import App, Receive, Scope, Send
from opsdk.verification.disturbances import FAULTS, WRITES, DisturbanceKind
from opsdk.verification.foreign.places import ForeignDisturbance
from opsdk.verification.held_views import HeldViews

__all__ = ["ForeignDisturber", "is_any_version_list", "serve_past"]


class ForeignDisturber:
    """Disturbs one run, or not.

    Args:
        disturbance: what goes wrong; None for a reference run.
        hide: breaks the watch of a path; see `Link.hide`.
        stale_seconds: after which a view moves on in any case.

    Attributes:
        step: number of the step that was taken last, from 0; -1 before the first.
        happened_at: number of the step at which it happened; None if it did not.
        place: the request that it hit.
        past_revision: that the operator's lists of the path show now; 0 for the present.
    """

    def __init__(
        self, disturbance: ForeignDisturbance | None, *, hide: Callable[[str], asyncio.Event], stale_seconds: float
    ) -> None:
        self._disturbance, self._hide = disturbance, hide
        self.step = -1
        self.happened_at: int | None = None
        self.place: Exchange | None = None
        self.past_revision = 0
        self._views = HeldViews(stale_seconds)

    @property
    def kind(self) -> DisturbanceKind | None:
        """The kind of the disturbance."""
        return None if self._disturbance is None else self._disturbance.kind

    @property
    def is_stale(self) -> bool:
        """Whether the operator's view is held back now."""
        return self._views.any_held

    @property
    def has_missed(self) -> bool:
        """See `HeldViews.has_missed`."""
        return self._views.has_missed

    def decide(self, exchange: Exchange, path: str, occurrence: int) -> Fault | None:
        """Return the fault that hits a write, given its stable path and how often it was sent."""
        disturbance = self._disturbance
        if disturbance is None or disturbance.kind not in WRITES:
            return None
        if (exchange.method, path, occurrence) != (disturbance.method, disturbance.path, disturbance.occurrence):
            return None
        self._happen(exchange)
        return FAULTS[disturbance.kind]

    async def hold(self, exchange: Exchange, key: str, occurrence: int) -> bool:
        """Wait until a message of a watch is delivered; False if it never is."""
        disturbance = self._disturbance
        if disturbance is None or disturbance.path != exchange.path or disturbance.kind in WRITES:
            return True
        at_place = (key, occurrence) == (disturbance.key, disturbance.occurrence)
        if at_place and self.happened_at is None and disturbance.kind is not DisturbanceKind.PAST:
            self._happen(exchange)
            if disturbance.kind is DisturbanceKind.HIDE:
                self._views.hide({exchange.client: self._hide(exchange.path)}, [key], self.step)
                return False
            self._views.stop(exchange.path, self.step, [key])
        await self._views.wait(exchange.path)
        return True

    def begin_past(self, path: str, revision: int) -> None:
        """Show a collection as it was at a revision, to an operator that is about to restart."""
        self.past_revision = revision
        self._views.stop(path, self.step)

    def see_past(self, exchange: Exchange) -> None:
        """Note a list that shows the past."""
        self._happen(exchange)

    def on_entry(self, entry: Entry, *, own: bool) -> None:
        """Note a stored write: it may end what is hidden, and a view is not stale for ever."""
        self._views.on_entry(entry, own=own)

    def on_rest(self) -> bool:
        """Return whether the views move on now, at the rest after a step."""
        return self._views.release_after(self.step)

    def release(self) -> None:
        """Let the operator see everything."""
        self.past_revision = 0
        self._views.release()

    def _happen(self, exchange: Exchange) -> None:
        self.happened_at, self.place = self.step, exchange


# ------------------------------------------------------------------ lists of the past
def is_any_version_list(exchange: Exchange) -> bool:
    """Whether a request lists objects at any version, as client-go's reflectors do: an old state is a correct answer.

    Upstream: k8s.io/client-go/tools/cache/reflector.go (v1.34), `relistResourceVersion`.
    """
    query = parse_qs(exchange.target.partition("?")[2])
    return exchange.method == "GET" and not exchange.is_watch and query.get("resourceVersion") == ["0"]


async def serve_past(app: App, revision: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a list at any version with the objects at a revision."""
    query = {name: values[-1] for name, values in parse_qs(scope["query_string"].decode()).items() if name != "limit"}
    query |= {"resourceVersion": str(revision), "resourceVersionMatch": "Exact"}
    await app({**scope, "query_string": urlencode(query).encode()}, receive, send)
