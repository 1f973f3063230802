"""Fakes behind a client: an executor that records operations, a transport with prepared responses, and a kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object
from opsdk.apimachinery.rest_mapper import RestMapping, StaticMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.client.operations import Operation, Watch
from opsdk.client.scheme import default_scheme
from opsdk.rest.request import RestRequest
from opsdk.rest.response import RestResponse
from opsdk.structured_merge.value import JsonObject


class SiteSpec(Model, kw_only=True):
    """What a site wants."""

    image: str
    replicas: int = 1
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class SiteStatus(Model, kw_only=True):
    """How a site is."""

    ready: int = 0


class Site(Object[SiteSpec, SiteStatus]):
    """A kind with a required field."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")


def site(name: str = "a", namespace: str = "ns", **meta: Any) -> Site:
    """A site as a user makes it."""
    return Site(metadata=ObjectMeta(name=name, namespace=namespace, **meta), spec=SiteSpec(image="nginx"))


def served(group: str, version: str, kind: str, plural: str, *, namespaced: bool = True) -> RestMapping:
    """How a kind is served."""
    gvk, gvr = GroupVersionKind(group, version, kind), GroupVersionResource(group, version, plural)
    return RestMapping(gvk=gvk, resource=gvr, namespaced=namespaced)


SITE = served("demo.opsdk.dev", "v1", "Site", "sites")
POD = served("", "v1", "Pod", "pods")
NODE = served("", "v1", "Node", "nodes", namespaced=False)
MAPPINGS = (
    SITE,
    POD,
    NODE,
    served("", "v1", "ConfigMap", "configmaps"),
    served("apps", "v1", "Deployment", "deployments"),
    served("", "v1", "Namespace", "namespaces", namespaced=False),
)


class FakeExecutor:
    """Records operations. Returns what `answer` returns, or else the object that the operation carries."""

    def __init__(self, answer: Callable[[Operation], Any] | None = None) -> None:
        self.scheme: Scheme = default_scheme()
        self.mapper = StaticMapper(MAPPINGS)
        self.seen: list[Operation | Watch] = []
        self.answer = answer

    async def execute(self, operation: Operation) -> Any:
        self.seen.append(operation)
        if self.answer is not None:
            return self.answer(operation)
        return getattr(operation, "body", None) or getattr(operation, "obj", None)

    @asynccontextmanager
    async def watch(self, operation: Watch) -> AsyncIterator[AsyncIterator[Any]]:
        self.seen.append(operation)

        async def nothing() -> AsyncIterator[Any]:
            return
            yield

        yield nothing()

    def last(self) -> Any:
        """The last operation."""
        return self.seen[-1]


class FakeTransport:
    """Answers each request with the next of its answers."""

    def __init__(self, *answers: RestResponse | JsonObject, chunks: list[bytes] | None = None) -> None:
        self.answers = list(answers)
        self.chunks = chunks or []
        self.seen: list[RestRequest] = []
        self.closed = 0

    async def send(self, request: RestRequest, **_: Any) -> RestResponse:
        self.seen.append(request)
        result = self.answers.pop(0)
        if isinstance(result, RestResponse):
            return result
        return RestResponse(200, {"content-type": "application/json"}, msgspec.json.encode(result))

    @asynccontextmanager
    async def stream(self, request: RestRequest, **_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        self.seen.append(request)

        async def parts() -> AsyncIterator[bytes]:
            for chunk in self.chunks:
                yield chunk

        try:
            yield parts()
        finally:
            self.closed += 1


def tree(name: str = "a", **rest: Any) -> JsonObject:
    """A site as the server sends it."""
    return {
        "apiVersion": "demo.opsdk.dev/v1",
        "kind": "Site",
        "metadata": {"name": name, "namespace": "ns", "uid": "u1", "resourceVersion": "7"},
        "spec": {"image": "nginx", "replicas": 3},
        **rest,
    }
