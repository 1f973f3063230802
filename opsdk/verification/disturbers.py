"""Lets one disturbance happen in a guided run."""

from __future__ import annotations

import asyncio
from typing import Final

from opsdk.engine.world.disturber import Disturber, WatchMessage
from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.faults import Fault
from opsdk.engine.world.rest_state import subject_of
from opsdk.engine.writes import Entry
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.disturbances import FAULTS, FOREIGN, WRITES, Disturbance, DisturbanceKind
from opsdk.verification.foreign_client import delete_child, edit_child
from opsdk.verification.held_views import HeldViews
from opsdk.verification.resting_run import RestingRun

__all__ = ["GuidedDisturber", "ViewHolder", "disturber_of"]

_LOST_SECONDS: Final = 50.0
"""Virtual seconds in which a leader cannot renew its lease: longer than most leases, shorter than a rest."""


class GuidedDisturber(Disturber):
    """A disturber of a guided run; this one lets everything pass."""

    _run: RestingRun

    def attach(self, run: RestingRun) -> None:
        """Begin with a run; called before its replicas start."""
        self._run = run


class ViewHolder(GuidedDisturber):
    """A disturber that holds views of the operator back."""

    def __init__(self) -> None:
        self._views = HeldViews()

    @property
    def is_stale(self) -> bool:
        """Whether a watch stands still, or hides an event."""
        return self._views.any_held

    @property
    def has_missed(self) -> bool:
        return self._views.has_missed

    def on_entry(self, entry: Entry, exchange: Exchange | None) -> None:
        self._views.on_entry(entry, own=exchange is not None)


def disturber_of(disturbance: Disturbance | None) -> GuidedDisturber:
    """Return what lets one disturbance happen, or nothing."""
    if disturbance is None:
        return GuidedDisturber()
    if disturbance.kind is DisturbanceKind.TAKE_OVER:
        return _TakeOver(disturbance)
    if disturbance.kind in FOREIGN:
        return _ForeignChange(disturbance)
    return _OneDisturbance(disturbance)


class _OneDisturbance(ViewHolder):
    """Lets one thing go wrong."""

    def __init__(self, disturbance: Disturbance) -> None:
        super().__init__()
        self._disturbance = disturbance
        self._happened = False
        self._loses_lease = ""

    @property
    def happened(self) -> bool:
        """Whether the disturbance was reached."""
        return self._happened

    async def decide(self, exchange: Exchange, number: int) -> Fault | None:
        disturbance = self._disturbance
        if exchange.client == self._loses_lease and exchange.is_lease:
            return Fault.UNAVAILABLE
        if disturbance.kind not in WRITES or disturbance.number != number:
            return None
        self._happened = True
        if disturbance.kind is DisturbanceKind.EARLY:
            self._run.hurry.set()
            return None
        if disturbance.kind is DisturbanceKind.LOSE_LEASE:
            self._loses_lease = exchange.client
            asyncio.get_running_loop().call_later(_LOST_SECONDS, self._keep_lease)
            return None
        return FAULTS[disturbance.kind]

    def _keep_lease(self) -> None:
        self._loses_lease = ""

    async def hold(self, exchange: Exchange, message: WatchMessage, body: bytes) -> bool:
        disturbance, run, path = self._disturbance, self._run, message.path
        if disturbance.kind in WRITES or disturbance.path != path:
            return True
        if disturbance.number == message.number:
            self._happened = True
            if disturbance.kind is DisturbanceKind.HIDE:
                hidden = {each.link.client: each.link.hide(path) for each in run.cluster.replicas}
                self._views.hide(hidden, message.keys, run.action)
                return False
            self._views.stop(path, run.action, message.keys)
        await self._views.wait(path)
        return True

    async def on_rest(self) -> bool:
        return self._views.release_after(self._run.action)

    async def end(self) -> None:
        self._keep_lease()
        self._views.release()


class _TakeOver(ViewHolder):
    """Lets a view of a standby stand still. After the next action the standby leads with it for a while."""

    def __init__(self, disturbance: Disturbance) -> None:
        super().__init__()
        self._disturbance = disturbance
        self._standby = ""
        self._action = -1
        self._has_led = False

    @property
    def happened(self) -> bool:
        """Whether the view of a standby stood still."""
        return bool(self._standby)

    @property
    def is_stale(self) -> bool:
        """Whether the replica that leads has an old view."""
        return self._has_led and self._views.any_held

    async def hold(self, exchange: Exchange, message: WatchMessage, body: bytes) -> bool:
        path = message.path
        place = (self._disturbance.path, self._disturbance.number)
        # In a run of another version of the operator, the message may be one of the leader's.
        if (path, message.number) == place and message.standby:
            self._standby, self._action = exchange.client, self._run.action
            self._views.stop(f"{self._standby} {path}", self._action, limited=False)
        await self._views.wait(f"{exchange.client} {path}")
        return True

    async def on_rest(self) -> bool:
        if not self._standby or self._has_led or self._run.action <= self._action:
            return False
        await self._lead()
        return True

    async def end(self) -> None:
        if self._standby and not self._has_led:
            await self._lead()

    async def _lead(self) -> None:
        """End every replica but the standby, until it has led for a while."""
        self._has_led = True
        self._views.limit()
        others = [each for each in self._run.cluster.replicas if each.link.client != self._standby]
        for replica in others:
            await replica.crash()
        await self._run.rest()
        self._views.release()
        for replica in others:
            replica.wake()
        await self._run.rest()


class _ForeignChange(GuidedDisturber):
    """Lets a foreign client delete or edit a child, when the operator is at rest."""

    def __init__(self, disturbance: Disturbance) -> None:
        self._disturbance = disturbance
        self._happened = False

    @property
    def happened(self) -> bool:
        """Whether the child existed."""
        return self._happened

    async def on_rest(self) -> bool:
        run, disturbance = self._run, self._disturbance
        if self._happened or run.action + 1 != disturbance.number:
            return False
        if (child := run.state.child(disturbance.path)) is None:
            return False
        self._happened = True
        stored, own = child
        if disturbance.kind is DisturbanceKind.DELETE_CHILD:
            await delete_child(run.cluster.env.config, stored)
            return True
        await edit_child(run.cluster.env.config, stored, own)
        if disturbance.kind is DisturbanceKind.DRIFT:
            await self._compare_with_next_process(_content(stored))
        return True

    async def _compare_with_next_process(self, usual: JsonObject) -> None:
        """Restart the operator: it restores nothing that it would not have restored before.

        An operator may keep what others change, as a password. One that restores it must not need a restart for it.
        """
        run, key = self._run, self._disturbance.path
        await run.rest()
        before = run.state.child(key)
        for replica in run.cluster.replicas:
            await replica.crash()
            replica.wake()
        await run.rest()
        after = run.state.child(key)
        if before is None or after is None:
            return
        if _content(before[0]) != usual and _content(after[0]) == usual:
            run.problems.append(
                f"drift: {subject_of(key)} is restored by the next process only: watch it, with owns=[...]"
            )


def _content(stored: JsonObject) -> JsonObject:
    """Return what is stored of an object, but for metadata and status."""
    return {name: value for name, value in stored.items() if name not in ("metadata", "status")}
