"""Runs the simulated controllers: one task that handles every change of the storage in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol

from envtest.controllers.cluster import Cluster
from envtest.controllers.garbage import GarbageCollector
from envtest.controllers.kubelet import Kubelet
from envtest.controllers.namespaces import NamespaceController
from envtest.controllers.workloads import WorkloadController
from opsdk.aio.tasks import TaskOwner
from opsdk.apiserver.storage.ports import Change
from opsdk.errors import ConfigError

if TYPE_CHECKING:
    from envtest.control_plane import ControlPlane

_LOG = logging.getLogger("envtest.controllers")
PROFILES = ("none", "cluster")
"""``none`` is a bare API server; ``cluster`` runs everything in this package."""


class Controller(Protocol):
    """Reacts to changes."""

    async def handle(self, change: Change) -> None:
        """One change anywhere in the storage."""
        ...


class Controllers:
    """The controllers of a profile; errors of one change are logged, and the next change is handled."""

    def __init__(self, plane: ControlPlane, profile: str) -> None:
        if profile not in PROFILES:
            raise ConfigError(f"unknown controllers {profile!r}: choose {' or '.join(PROFILES)}")
        self._plane = plane
        self._profile = profile
        self._tasks = TaskOwner("controllers")
        self._queue: deque[Change] = deque()
        self._wake = asyncio.Event()
        self._controllers: list[Controller] = []

    async def start(self) -> None:
        """Begin; what is there already is handled first."""
        if self._profile == "none":
            return
        cluster = Cluster(self._plane)
        namespaces = NamespaceController(cluster)
        self._controllers = [GarbageCollector(cluster), namespaces, Kubelet(cluster), WorkloadController(cluster)]
        await namespaces.start()
        for store, obj in cluster.everything():
            key = store.key(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            self._offer(Change.of(key, obj))
        self._plane.storage.subscribe(self._offer)
        self._tasks.start(self._run(), name="run")

    def _offer(self, change: Change) -> None:
        self._queue.append(change)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            while self._queue:
                await self._handle(self._queue.popleft())
            self._wake.clear()
            await self._wake.wait()

    async def _handle(self, change: Change) -> None:
        for controller in self._controllers:
            try:
                await controller.handle(change)
            except Exception:  # noqa: BLE001 - logged; one bad object must not stop the cluster
                _LOG.exception("%s failed on %s", type(controller).__name__, change.key)

    async def aclose(self) -> None:
        """Stop; idempotent."""
        self._plane.storage.unsubscribe(self._offer)
        await self._tasks.aclose()
