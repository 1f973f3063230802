"""Replicas of a `CertificateManager` around an API server in this process, with faults and an invariant."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

from msgspec.structs import replace

import envtest
from opsdk.aio.clock import monotonic, utc_now
from opsdk.api.core.v1 import Secret
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.client.operations import Create, Operation, PatchObject, Update
from opsdk.client.patch import json_patch, merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConfigError, ConnectError, ConnectionLostError
from opsdk.telemetry.records import Record, TelemetryHook
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget
from opsdk.webhook.certificates.issuing import (
    is_issued_by,
    load_certificate,
    load_certificates,
)
from opsdk.webhook.certificates.manager import CertificateManager
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.certificates.rotation import RENEW_ANNOTATION, RenewalRequest
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService

DAY = 86400.0
OPTIONS = SelfSigned(service="hooks", namespace="default", overlap=60, check_interval=10)
KEY = "default/hooks-tls"
TARGETS = (InjectionTarget(InjectionKind.VALIDATING, "a-validating"), InjectionTarget(InjectionKind.MUTATING, "a"))
INJECTING = replace(OPTIONS, inject=TARGETS)


def configuration(target: InjectionTarget, *services: str) -> Unstructured:
    """A webhook configuration that calls Services, one webhook for each."""
    webhooks = [
        {
            "name": f"{service}{number}.example.com",
            "clientConfig": WebhookClientConfig(service=WebhookService(name=service, namespace="default")).tree("/a"),
            "rules": [{"operations": ["CREATE"], "apiGroups": ["x.io"], "apiVersions": ["v1"], "resources": ["xs"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        for number, service in enumerate(services)
    ]
    return Unstructured(*target.kind.value, ObjectMeta(name=target.name), {"webhooks": webhooks})


@cache
def trusted_until(cert: bytes, bundle: bytes) -> datetime:
    """Until when a certificate can be verified with a ``caBundle``."""
    certificate = load_certificate(cert)
    issuers = [a.not_valid_after_utc for a in load_certificates(bundle) if is_issued_by(certificate, a)]
    return min(certificate.not_valid_after_utc, max(issuers)) if issuers else datetime.min.replace(tzinfo=UTC)


@dataclass
class Link:
    """One replica's way to the API server: late, cut, or the last thing that the replica does.

    Attributes:
        executor: of the server.
        on_done: called after each write, when the server has changed and the replica does not know.
        fault_rate: share of the operations that fail, half of them after they took effect.
        crash_after: operations until `crash` is called: before an operation, or between it and its result.
    """

    executor: Any
    rng: random.Random
    on_done: Callable[[], Any]
    fault_rate: float = 0.0
    cut: bool = False
    latency: float = 0.5
    crash_after: int | None = None
    crash: Callable[[], None] = lambda: None
    scheme: Any = None
    mapper: Any = None
    writes: list[Operation] = field(default_factory=list)

    async def execute(self, operation: Operation) -> Any:
        await self._travel(lost=ConnectError("refused"))
        result = await self.executor.execute(operation)
        if isinstance(operation, Create | Update | PatchObject):
            self.writes.append(operation)
            await self.on_done()
        await self._travel(lost=ConnectionLostError("cut"))
        return result

    async def _travel(self, lost: Exception) -> None:
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                self.crash_after = None
                self.crash()
        await asyncio.sleep(self.rng.uniform(0, self.latency))
        if self.cut or self.rng.random() < self.fault_rate / 2:
            raise lost


@dataclass
class Replica:
    """A process with a manager; a crash forgets everything."""

    link: Link
    options: SelfSigned = OPTIONS
    manager: CertificateManager | None = None
    task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.manager = CertificateManager(
            Client(self.link), replace(self.options, inject=(*TARGETS, *self.options.inject))
        )
        self.task = asyncio.create_task(self.manager.start())
        self.link.crash = self.stop

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.manager = self.task = None

    async def served(self) -> bytes | None:
        """The certificate that calls get; None while the replica gets no calls."""
        if self.manager is None or self.task is None or self.task.done():
            return None
        try:
            await self.manager.check_ready()
        except ConfigError:
            return None
        assert self.manager._serving is not None
        return self.manager._serving.pair.cert


@dataclass
class World:
    """Server and replicas, with the invariant.

    Attributes:
        bundles: for each target, the values of its ``caBundle`` with the time until which a server may use them.
        checks: how often the invariant was judged with a certificate.
        lag: seconds for which an API server may still use an earlier ``caBundle``.
        authorities: all CAs that were ever trusted.
    """

    cluster: Cluster
    rng: random.Random
    replicas: list[Replica] = field(default_factory=list)
    bundles: dict[str, dict[bytes, float]] = field(default_factory=dict)
    checks: int = 0
    lag: float = 20.0
    authorities: set[bytes] = field(default_factory=set)

    async def judge(self) -> None:
        """Each certificate that is served verifies with each ``caBundle`` that an API server may use now."""
        now = monotonic()
        served = {cert for replica in self.replicas if (cert := await replica.served()) is not None}
        for target in TARGETS:
            obj = await self.cluster.uncached.get_or_none(target.kind.kind, target.name)
            ours = (
                [hook for hook in obj["webhooks"] if hook["clientConfig"]["service"]["name"] == "hooks"] if obj else []
            )
            values = self.bundles.setdefault(target.name, {})
            for hook in ours:
                if bundle := hook["clientConfig"].get("caBundle"):
                    values[base64.b64decode(bundle)] = now + self.lag
            self.authorities.update(*(bundle.split(b"-----BEGIN CERTIFICATE-----")[1:] for bundle in values))
            for bundle in [bundle for bundle, until in values.items() if until >= now]:
                for cert in served:
                    self.checks += 1
                    assert utc_now() < trusted_until(cert, bundle), f"at {now}"

    def add_replica(self, options: SelfSigned = OPTIONS, **link: Any) -> Replica:
        executor = self.cluster.uncached.executor
        replica = Replica(Link(executor, self.rng, self.judge, **link), options)
        self.replicas.append(replica)
        replica.start()
        return replica

    async def run(self, seconds: float) -> None:
        """Let time pass, and judge often; writes are judged besides."""
        end = monotonic() + seconds
        while monotonic() < end:
            await asyncio.sleep(2.0 if seconds < DAY else DAY / 2)
            await self.judge()
            for replica in self.replicas:
                if replica.task is not None and replica.task.done():
                    replica.task.result()

    async def authorities_of(self, target: InjectionTarget) -> list[Any]:
        """The CAs that a target trusts."""
        obj = await self.cluster.uncached.get(target.kind.kind, target.name)
        return load_certificates(base64.b64decode(obj["webhooks"][0]["clientConfig"]["caBundle"]))

    async def set_ca_bundle(self, target: InjectionTarget, bundle: bytes) -> None:
        """Set all three caBundles, as another client."""
        obj = await self.cluster.uncached.get(target.kind.kind, target.name)
        value = base64.b64encode(bundle).decode()
        patch = [{"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": value} for i in range(3)]
        await self.cluster.uncached.patch(obj, json_patch(patch))

    async def secret(self) -> Secret:
        return await self.cluster.uncached.get(Secret, KEY)

    async def annotate(self, request: RenewalRequest) -> None:
        """What ``kubectl annotate`` does."""
        meta = ObjectMeta(name="hooks-tls", namespace="default")
        patch = merge_patch({"metadata": {"annotations": {RENEW_ANNOTATION: request.value}}})
        await self.cluster.uncached.patch(Secret(metadata=meta), patch)

    async def writes(self, seconds: float) -> list[Operation]:
        """The writes of all replicas in some time."""
        for replica in self.replicas:
            replica.link.writes.clear()
        await self.run(seconds)
        return [write for replica in self.replicas for write in replica.link.writes]


@asynccontextmanager
async def world(seed: int = 0, *, replicas: int = 3, **link: Any) -> AsyncIterator[World]:
    """A server with two configurations, and replicas."""
    async with envtest.Environment(hot_loop_limit=0) as env, Cluster(env.config) as cluster:
        for target in TARGETS:
            await cluster.uncached.create(configuration(target, "hooks", "foreign", "hooks"))
        started = World(cluster, random.Random(seed))
        for _ in range(replicas):
            started.add_replica(**link)
        try:
            yield started
        finally:
            for replica in started.replicas:
                replica.stop()


async def rotate(world: World, seconds: float = 300.0) -> None:
    """Request a new CA, and give the replicas time."""
    await world.annotate(RenewalRequest.CA)
    await world.run(seconds)


class Overtaken(Client):
    """A client whose updates come after another client's."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cluster.uncached.executor)
        self.world = world

    async def update(self, obj: Any, **options: Any) -> Any:
        await self.world.annotate(RenewalRequest.CA)
        return await super().update(obj, **options)


class Paused(Client):
    """A client that calls a function once, before a certain request after its first write."""

    def __init__(self, world: World, place: str, function: Callable[[], Awaitable[None]]) -> None:
        super().__init__(world.cluster.uncached.executor)
        self.place, self.function = place, function
        self.has_written = False

    async def create(self, obj: Any, **options: Any) -> Any:
        created = await super().create(obj, **options)
        self.has_written = True
        return created

    async def get(self, kind: Any, *args: Any, **options: Any) -> Any:
        await self._pause("read the Secret again" if kind_of(kind).name == "Secret" else "read the target")
        return await super().get(kind, *args, **options)

    async def patch(self, *args: Any, **options: Any) -> Any:
        await self._pause("patch")
        return await super().patch(*args, **options)

    async def _pause(self, place: str) -> None:
        if place == self.place and self.has_written:
            self.place = ""
            await self.function()


class RecordingHook(TelemetryHook):
    """Keeps records."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> None:
        self.records.append(record)
