"""Environments that are started once and forked for each test."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from envtest.environment import Environment
from envtest.external.clusters import ClusterTarget, TargetKind, target
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.snapshots import Snapshot
from opsdk.errors import ConfigError
from opsdk.testing.loop import VirtualLoop

_INSTALLED = ("crds", "crd_paths", "service_range", "kubernetes")
"""The options that decide which objects there are at the start."""
_FOR_PLUGIN = ("faults", "seed")


class Templates:
    """Snapshots of started environments by their options; each is created at its first use."""

    def __init__(self) -> None:
        self._snapshots: dict[bytes, Snapshot] = {}
        self._targets: dict[bytes, ClusterTarget] = {}

    def __repr__(self) -> str:
        return f"<Templates: {len(self._snapshots)}>"

    def environment(self, options: Mapping[str, Any]) -> Environment:
        """Return a new environment that is not started, with the objects of the options."""
        installed = {name: options[name] for name in _INSTALLED if options.get(name)}
        rest = {k: v for k, v in options.items() if k not in (*_INSTALLED, *_FOR_PLUGIN)}
        rest |= {name: installed[name] for name in ("service_range", "kubernetes") if name in installed}
        key = _key(installed)
        snapshot = self._snapshots.get(key)
        if snapshot is None:
            # No test runs yet, so no event loop exists. Timestamps are those of the start of virtual time.
            with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                snapshot = self._snapshots[key] = runner.run(_snapshot_of_started(installed))
        env = Environment(storage=MemoryStorage.of(snapshot), **rest)
        if "seed" in options:
            env.faults.seed(options["seed"])
        for fault in options.get("faults") or ():
            effect, match = fault if isinstance(fault, tuple) else (fault, {})
            if not hasattr(effect, "apply"):
                raise ConfigError(
                    f"faults are effects, or pairs of an effect and a dict of what it means, not {effect!r}"
                )
            env.faults.add(effect, **match)
        return env

    def target(self, kind: TargetKind, options: Mapping[str, Any]) -> ClusterTarget:
        """Return a started external cluster; tests with the same options share it."""
        key = _key(options)
        entry = self._targets.get(key)
        if entry is None:
            entry = target(kind, **options)
            with asyncio.Runner() as runner:
                runner.run(_start_or_close(entry))
            self._targets[key] = entry
        return entry

    def close(self) -> None:
        """Close the external clusters; idempotent."""
        while self._targets:
            _, target = self._targets.popitem()
            with asyncio.Runner() as runner:
                runner.run(target.aclose())


def _key(options: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(dict(options), order="deterministic", enc_hook=str)


async def _start_or_close(target: ClusterTarget) -> None:
    try:
        await target.start()
    except BaseException:
        await target.aclose()
        raise


async def _snapshot_of_started(installed: Mapping[str, Any]) -> Snapshot:
    async with Environment(**installed) as env:
        return env.snapshot()
