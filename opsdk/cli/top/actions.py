"""What the console does to an operator: pause and resume in the cluster, reconcile now, dump."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.builder.controller_pauses import REASON_SUFFIX
from opsdk.cli.pause import PauseTarget, annotate, set_data
from opsdk.cli.top.client import DebugClient
from opsdk.cli.top.tables import RowTarget
from opsdk.controller.pausing import PAUSE_REASON_ANNOTATION, PAUSED_ANNOTATION
from opsdk.errors import UsageError
from opsdk.rest.config import RestConfig

_REASON = "paused from opsdk top"
_SAFE_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


def resource_name(kind: str) -> str:
    """Return a kind of a debug page as the server's discovery finds it.

    >>> resource_name("demo.opsdk.dev/v1, Kind=Website"), resource_name("v1, Kind=ConfigMap")
    ('website.demo.opsdk.dev', 'configmap')
    """
    api_version, _, name = kind.partition(", Kind=")
    group = api_version.rpartition("/")[0]
    if not name:
        raise UsageError("the controller has no kind: its requests cannot be paused one by one")
    return f"{name.lower()}.{group}" if group else name.lower()


class Actions:
    """Acts on what the console shows.

    Args:
        client: of the operator.
        config: returns the address of the operator's cluster.
    """

    def __init__(self, client: DebugClient, config: Callable[[], RestConfig]) -> None:
        self._client = client
        self._config = config

    def cluster(self) -> str:
        """Return the address of the cluster whose objects are paused. Raises `ConfigError`."""
        return self._config().host

    async def reconcile(self, target: RowTarget) -> str:
        """Queue a request now, and return the outcome."""
        if not target.name:
            raise UsageError("choose an object: a whole controller is not reconciled at once")
        return f"{target}: {await self._client.reconcile(target.controller, target.namespace, target.name)}"

    async def pause(self, target: RowTarget, config_map: str, *, paused: bool) -> str:
        """Pause or resume an object by its annotation, or a controller by the ConfigMap; see `opsdk.cli.pause`.

        Args:
            target: the object or controller.
            config_map: namespace and name of the ConfigMap that pauses controllers; empty without one.
            paused: begin the pause; else end it.

        Raises:
            UsageError: the operator follows no ConfigMap, or the object is in a managed cluster.
        """
        if target.cluster:
            raise UsageError(f"{target} is in the managed cluster {target.cluster}: use opsdk pause with its context")
        value, reason = ("true", _REASON) if paused else (None, None)
        action = "paused" if paused else "resumed"
        if not target.name:
            await self._pause_controller(target, config_map, value, reason)
            return f"{target}: {action}"
        key = f"{target.namespace}/{target.name}" if target.namespace else target.name
        objects = PauseTarget(kind=resource_name(target.kind), key=key, selector="", all_objects=False, namespace="")
        words = {PAUSED_ANNOTATION: value, PAUSE_REASON_ANNOTATION: reason}
        changed = await annotate(self._config(), objects, words)
        return f"{changed[0]}: {action}" if changed else f"{target} was not paused"

    async def _pause_controller(
        self, target: RowTarget, config_map: str, value: str | None, reason: str | None
    ) -> None:
        if not config_map:
            raise UsageError("the operator has no ConfigMap for pauses: set OperatorOptions(pause_config_map=...)")
        words = {target.controller: value, f"{target.controller}{REASON_SUFFIX}": reason}
        await set_data(self._config(), ObjectKey.parse(config_map), words)

    async def dump(self, path: Path) -> str:
        """Write all pages into a new file that only its owner can read. Raises `UsageError` if it exists."""
        pages = await self._client.pages()
        write_dump(path, {"address": self._client.name, "pages": pages})
        return f"wrote {path}"


def write_dump(path: Path, dump: Mapping[str, object]) -> None:
    """Write JSON into a new file: error messages may name what others should not read."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(dump, file, indent=1)
        file.write("\n")


def dump_name(operator: str, time: datetime) -> str:
    """Return the name of a file for a dump.

    >>> dump_name("Web/site", datetime(2026, 1, 2, 3, 4, 5))
    'opsdk-dump-web-site-20260102T030405Z.json'
    """
    safe = "".join(char if char in _SAFE_NAME else "-" for char in operator.lower())[:50]
    return f"opsdk-dump-{safe or 'operator'}-{time:%Y%m%dT%H%M%S}Z.json"
