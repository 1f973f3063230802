"""Operators that list and watch as client-go does, in this process or in another one: correct, or with one bug.

    python foreign_operators.py stale_deletion

Each creates a ConfigMap for a Site, reports it in the status, and deletes it when the Site goes, by a finalizer.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.errors import OpsdkError
from opsdk.http.asgi_types import App
from opsdk.rest.config import RestConfig
from opsdk.rest.load import load_config
from opsdk.rest.request import RestRequest
from opsdk.rest.transport import Transport
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.foreign.child import ForeignOperator, OpenOperator, OperatorProcess

SITE = unstructured_kind("demo.opsdk.dev/v1", "Site")
CONFIG_MAP = unstructured_kind("v1", "ConfigMap")
SECRET = unstructured_kind("v1", "Secret")
FINALIZER = "demo.opsdk.dev/foreign"
NAMESPACE = "default"
ELSEWHERE = "shop-system"
DEFINITION: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sites.demo.opsdk.dev"},
    "spec": {
        "group": "demo.opsdk.dev",
        "scope": "Namespaced",
        "names": {"kind": "Site", "plural": "sites", "singular": "site", "listKind": "SiteList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"text": {"type": "string"}}},
                            "status": {"type": "object", "properties": {"text": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    },
}


class Behaviour(StrEnum):
    """What an operator does wrong."""

    GOOD = "good"
    """Nothing."""
    STATUS_FIRST = "status_first"
    """It reports the text before it writes the ConfigMap, and believes the report."""
    STALE_DELETION = "stale_deletion"
    """It deletes the ConfigMap of a Site with the same name, which was created after the one that it sees."""
    RESTLESS = "restless"
    """It writes a new value each second."""
    IDLE = "idle"
    """It writes nothing."""
    EXITS = "exits"
    """It ends at once."""
    FRAGILE = "fragile"
    """It ends when a write fails."""
    BLIND = "blind"
    """It lists its kind, which is not served."""
    DEAF = "deaf"
    """It sends no request."""
    NEEDY = "needy"
    """It needs a Secret."""
    SLOW = "slow"
    """It needs 20 seconds between its first request and its first watch."""
    ELSEWHERE = "elsewhere"
    """It also writes into a namespace of its own, and goes on when that fails."""


async def operate(config: RestConfig, behaviour: Behaviour) -> int:
    """Run an operator until it is cancelled. Returns its exit status if it ends by itself."""
    if behaviour is Behaviour.EXITS:
        print("cannot read the licence", flush=True)  # noqa: T201 - the output of a program
        return 3
    if behaviour is Behaviour.DEAF:
        await asyncio.Event().wait()
    if behaviour is Behaviour.BLIND:
        async with Transport(config) as transport:
            await transport.send(RestRequest("GET", "/apis/demo.opsdk.dev/v1/sites"))
            await asyncio.Event().wait()
    async with Cluster(replace(config, user_agent="foreign/1")) as cluster:
        if behaviour is Behaviour.SLOW:
            await cluster.uncached.list(CONFIG_MAP)
            await asyncio.sleep(20.0)
        while True:
            try:
                await _list_and_watch(cluster.uncached, behaviour)
            except OpsdkError as error:
                print(error, flush=True)  # noqa: T201 - the output of a program
                if behaviour is Behaviour.FRAGILE and "injected" in str(error):
                    return 1
                await asyncio.sleep(0.5)


async def _list_and_watch(client: Client, behaviour: Behaviour) -> None:
    sites = await client.list(SITE, resource_version="0")
    for site in sites:
        await _reconcile(client, site, behaviour)
    async with client.watch(SITE, resource_version=sites.metadata.resource_version) as events:
        async for event in events:
            if event.type.value != "DELETED":
                await _reconcile(client, event.object, behaviour)


async def _reconcile(client: Client, site: Unstructured, behaviour: Behaviour) -> None:
    metadata = site.metadata
    if behaviour is Behaviour.IDLE:
        return
    if behaviour is Behaviour.NEEDY:
        await client.get(SECRET, "login", namespace=NAMESPACE)
    if behaviour is Behaviour.RESTLESS:
        for number in range(1000):
            await client.apply(_config_map(metadata.name, str(number)), field_owner="foreign", force=True)
            await asyncio.sleep(1.0)
    if metadata.deletion_timestamp is not None:
        await _finalize(client, site, behaviour)
        return
    if FINALIZER not in (metadata.finalizers or ()):
        await client.patch(site, merge_patch({"metadata": {"finalizers": [FINALIZER]}}))
        return
    text = site["spec"].get("text", "")
    if behaviour is Behaviour.ELSEWHERE:
        with suppress(OpsdkError):
            await client.apply(_config_map(metadata.name, text, ELSEWHERE), field_owner="foreign", force=True)
    if behaviour is Behaviour.STATUS_FIRST:
        if (site.get("status") or {}).get("text") == text:
            return
        await client.status().patch(site, merge_patch({"status": {"text": text}}))
    config_map = await client.get_or_none(CONFIG_MAP, metadata.name, namespace=NAMESPACE)
    if config_map is None or config_map.get("data") != {"text": text}:
        await client.apply(_config_map(metadata.name, text), field_owner="foreign", force=True)
    await client.status().patch(site, merge_patch({"status": {"text": text}}))


async def _finalize(client: Client, site: Unstructured, behaviour: Behaviour) -> None:
    """Delete the ConfigMap, and let the Site go."""
    metadata = site.metadata
    live = await client.get_or_none(SITE, metadata.name, namespace=NAMESPACE)
    is_same = live is not None and live.metadata.uid == metadata.uid
    if is_same or behaviour is Behaviour.STALE_DELETION:
        await client.delete(CONFIG_MAP, metadata.name, namespace=NAMESPACE, missing_ok=True)
    if is_same:
        await client.patch(site, merge_patch({"metadata": {"finalizers": None}}))


def _config_map(name: str, text: str, namespace: str = NAMESPACE) -> Unstructured:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
    return Unstructured.from_tree({**tree, "data": {"text": text}})


# ------------------------------------------------------------------ in this process
class _Task:
    def __init__(self, task: asyncio.Task[int]) -> None:
        self._task = task

    def kill(self) -> None:
        """Cancel the task."""
        self._task.cancel()

    async def wait(self) -> int:
        """Return the exit status."""
        await asyncio.wait([self._task])
        return -9 if self._task.cancelled() else self._task.result()


class _InProcess:
    def __init__(self, config: RestConfig, behaviour: Behaviour) -> None:
        self._config, self._behaviour = config, behaviour

    async def start(self) -> OperatorProcess:
        """Start a task."""
        return _Task(asyncio.ensure_future(operate(self._config, self._behaviour)))

    def log_lines(self) -> Sequence[str]:
        """Return one line."""
        return [f"the operator is {self._behaviour.value}"]

    def is_in_background(self) -> bool:
        """Tasks of this process end with it."""
        return False


def in_process(behaviour: Behaviour) -> OpenOperator:
    """Return a function that prepares an operator in this process, for virtual time."""

    @asynccontextmanager
    async def opened(environment: Any, app: App) -> AsyncIterator[ForeignOperator]:
        yield _InProcess(replace(environment.config, app=app), behaviour)

    return opened


def main(words: Sequence[str], load: Callable[[], RestConfig] = load_config) -> int:
    """Run an operator in its own process, on the cluster of KUBECONFIG."""
    return asyncio.run(operate(load(), Behaviour(words[0])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
