"""ComponentStatuses.

Upstream: pkg/registry/core/componentstatus (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import ListQuery, ListResult
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.errors import Details, NotFoundError
from opsdk.structured_merge.value import JsonObject

_PORTS = {"controller-manager": 10257, "scheduler": 10259}
"""Ports at which kube-apiserver probes the other control plane components."""


class ComponentStatuses:
    """The store of ComponentStatuses; every component is healthy.

    Attributes:
        simulated: whether scheduler and controller manager are healthy; else their ports refuse connections.
    """

    simulated = False

    def __init__(self) -> None:
        self.strategy = Strategy()

    async def get(self, context: Context, name: str) -> JsonObject:
        component = next((obj for obj in self._all() if obj["metadata"]["name"] == name), None)
        if component is None:
            # Unlike other errors, upstream names the kind here instead of the resource.
            text = f'componentstatus "{name}" not found'
            raise NotFoundError(text, details=Details(name=name, kind="componentstatus"))
        return component

    async def list(self, context: Context, query: ListQuery) -> ListResult:
        selection = query.selection

        def matches(name: str) -> bool:
            return selection.labels.matches({}) and selection.fields.matches(
                lambda key: name if key == "metadata.name" else ""
            )

        return ListResult([obj for obj in self._all() if matches(obj["metadata"]["name"])], 0)

    def _all(self) -> Iterator[JsonObject]:
        yield _component("etcd-0", "")
        for name, port in _PORTS.items():
            refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
            yield _component(name, "" if self.simulated else f'Get "https://127.0.0.1:{port}/healthz": {refused}')


def _component(name: str, problem: str) -> JsonObject:
    condition = {"type": "Healthy", "status": "False" if problem else "True", "message": problem or "ok"}
    kind: JsonObject = {"kind": "ComponentStatus", "apiVersion": "v1"}
    return {**kind, "metadata": {"name": name}, "conditions": [condition]}
