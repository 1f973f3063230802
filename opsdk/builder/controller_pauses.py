"""Pauses whole controllers, as a ConfigMap in the operator's namespace requests.

============================  ===================================================================
``website: "true"``           the controller ``website`` starts no reconcile
``website: TIME``             until this time, such as ``2026-01-02T15:04:05Z`` (RFC 3339)
``website.reason``            why it is paused
============================  ===================================================================

A ConfigMap survives restarts, and every replica reads it before its controllers start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from opsdk.aio.clock import utc_now
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import kind_of
from opsdk.cache.store import Delta
from opsdk.cluster.cluster import Cluster
from opsdk.cluster.waiting import followed
from opsdk.controller.pausing import PAUSE_REASON_ANNOTATION, PAUSED_ANNOTATION, Pause, read_pause
from opsdk.errors import OpsdkError
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

REASON_SUFFIX = ".reason"
# Seconds for the first read. Without it the controllers start, and are paused when the ConfigMap can be read.
_SYNC_TIMEOUT = 10.0


@runtime_checkable
class Pausable(Protocol):
    """A runnable that starts no work while it is paused: a `Controller`, or a `GenericController`."""

    name: str

    def pause(self, pause: Pause | None) -> None:
        """Begin a pause, or end it with None."""
        ...


class ControllerPauses:
    """Follows the ConfigMap, and pauses and resumes the controllers. A Runnable of every replica.

    Args:
        cluster: has the ConfigMap, in the namespace of its configuration.
        name: of the ConfigMap, which need not exist.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._namespace, self._name = cluster.config.namespace, name
        self._controllers: dict[str, Pausable] = {}
        self._config_map: ConfigMap | None = None
        self._ready = asyncio.Event()

    def add(self, runnable: object) -> None:
        """Pause and resume a runnable of the manager, if it is `Pausable`."""
        if isinstance(runnable, Pausable):
            self._controllers[runnable.name] = runnable
            if self._config_map is not None:
                self._pause(runnable)

    def debug_pages(self) -> Mapping[str, Callable[[], Iterable[object]]]:
        return {"pauses": lambda: [{"namespace": self._namespace, "config_map": self._name, "data": dict(self._data)}]}

    def needs_leader_election(self) -> bool:
        """Return False: a replica that becomes the leader must know the pauses."""
        return False

    async def wait_ready(self) -> None:
        """Return when the ConfigMap was read, or cannot be read now."""
        await self._ready.wait()

    async def start(self) -> None:
        """Follow the ConfigMap until cancelled."""
        key = ObjectKey(self._namespace, self._name)
        async with followed(self._cluster.new_cache, kind_of(ConfigMap), key) as (informers, running):
            informers.add_handler(self._on_delta)
            try:
                await informers.wait_synced(_SYNC_TIMEOUT)
            except OpsdkError as error:
                log.error("%r cannot be read, so no controller is paused now: %s", self, error)
            self._ready.set()
            await running

    def _on_delta(self, delta: Delta) -> None:
        # A finalizer may keep it: perhaps that of a controller which the ConfigMap pauses.
        entry = delta.new if delta.new is not None and not delta.new.deleting else None
        self._config_map = decode(entry.data, kind_of(ConfigMap)) if entry is not None else None
        for controller in self._controllers.values():
            self._pause(controller)
        unknown = sorted({key.removesuffix(REASON_SUFFIX) for key in self._data} - self._controllers.keys())
        if unknown:
            names = ", ".join(sorted(self._controllers))
            self._warn(f"no controller is named {', '.join(unknown)}: this operator has {names}.")

    @property
    def _data(self) -> Mapping[str, str]:
        return self._config_map.data if self._config_map is not None else {}

    def _pause(self, controller: Pausable) -> None:
        name, data = controller.name, self._data
        words = {PAUSED_ANNOTATION: data[name]} if name in data else {}
        words[PAUSE_REASON_ANNOTATION] = data.get(f"{name}{REASON_SUFFIX}", "")
        pause = read_pause(words, now=utc_now())
        if pause is not None and pause.problem:
            problem = pause.problem.replace(f"the annotation {PAUSED_ANNOTATION}", f"the value of {name}")
            self._warn(f"{problem}. The controller stays paused.")
        controller.pause(pause)

    def _warn(self, note: str) -> None:
        log.warning("%r: %s", self, note)
        if self._config_map is not None:
            self._cluster.recorder.event(self._config_map, "Warning", "InvalidPause", note, action="Pause")

    def __repr__(self) -> str:
        return f"<ControllerPauses of ConfigMap {self._namespace}/{self._name}>"
