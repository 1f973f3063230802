"""Rotations of the CA of a webhook server under load: three replicas, real TLS, and no call that fails.

The API server in this process calls a Service. A balancer in front of the replicas passes each new connection to the
next replica that is ready, as kube-proxy does. Besides, a client shakes hands with each ready replica in turn, and
verifies it with the ``caBundle`` that the configuration has at that time. The replicas have the rights of
docs/webhooks.md.

The time of the event loop advances when each caller has made a call. So the overlap is much longer
than a call, whatever else the machine does.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import logging
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import envtest
from opsdk import Cluster, GroupVersionKind, Model, Object, ObjectMeta, Operator, OperatorOptions, crd_for
from opsdk.api.core.v1 import Secret, Service, ServiceSpec
from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.client.patch import merge_patch
from opsdk.errors import OpsdkError
from opsdk.http.asgi_types import Message
from opsdk.http.server.request import HttpRequest, Query
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.running import running
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService
from opsdk.webhook.handlers import AdmissionContext
from opsdk.webhook.options import WebhookServerOptions

NAMESPACE = "default"
CONFIGURATION = "pages-validating"
OPTIONS = SelfSigned(service="hooks", namespace=NAMESPACE, overlap=40, check_interval=10)
_TICK = 5.0
"""Seconds that one call takes of each caller."""
RULES = {
    "Role": [
        PolicyRule(api_groups=[""], resources=["secrets"], verbs=["create"]),
        PolicyRule(api_groups=[""], resources=["secrets"], resource_names=["hooks-tls"], verbs=["get", "update"]),
    ],
    "ClusterRole": [
        PolicyRule(
            api_groups=["admissionregistration.k8s.io"],
            resources=["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            resource_names=["pages-mutating", CONFIGURATION],
            verbs=["get", "patch"],
        )
    ],
}
"""All that the replicas may do."""


class PageSpec(Model):
    """A page."""

    title: str = ""


class Page(Object[PageSpec, None]):
    """A kind with webhooks."""

    gvk = GroupVersionKind("bench.opsdk.dev", "v1", "Page")


def make_operator() -> Operator:
    """Return a replica."""
    options = WebhookServerOptions(host="127.0.0.1", port=0, certificates=OPTIONS)
    operator = Operator("pages", OperatorOptions(webhook=options))

    def check(page: Page, ctx: AdmissionContext) -> None:
        pass

    def set_title(page: Page, ctx: AdmissionContext) -> None:
        page.spec.title = page.spec.title or "none"

    operator.webhook_for(Page).with_defaulter(set_title).with_validator(create=check)
    return operator


@dataclass
class Figures:
    """What has happened.

    Attributes:
        calls: requests to the API server that called both webhooks, by the number of the caller.
        handshakes: new TLS connections to single replicas.
        unready: handshakes that were left out because the replica was not ready.
        failures: reasons of failed calls and handshakes.
        replicas: new connections by the number of the replica that served them.
        rotations: CAs that were replaced.
        seconds: how long it took.
        ended: no more calls are made.
    """

    calls: Counter[int] = field(default_factory=Counter)
    handshakes: int = 0
    unready: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    replicas: Counter[int] = field(default_factory=Counter)
    rotations: int = 0
    seconds: float = 0.0
    ended: bool = False

    def __str__(self) -> str:
        shares = ", ".join(f"{number}: {count}" for number, count in sorted(self.replicas.items()))
        return (
            f"{self.rotations} rotations in {self.seconds:.0f} s: {self.calls.total()} calls, "
            f"{self.handshakes} handshakes, "
            f"{self.failures.total()} failed; connections of replicas {shares}"
            + "".join(f"\n  {count} x {reason}" for reason, count in self.failures.most_common(5))
        )


# ------------------------------------------------------------------ the world
async def allow(admin: Cluster, user: str) -> None:
    """Give a user the rules."""
    meta, group = ObjectMeta(name="certificates", namespace=NAMESPACE), "rbac.authorization.k8s.io"
    subjects = [Subject(kind="User", name=user, api_group=group)]
    await admin.uncached.create(Role(metadata=meta, rules=RULES["Role"]))
    role = RoleRef(api_group=group, kind="Role", name="certificates")
    await admin.uncached.create(RoleBinding(metadata=meta, role_ref=role, subjects=subjects))
    meta = ObjectMeta(name="certificates")
    await admin.uncached.create(ClusterRole(metadata=meta, rules=RULES["ClusterRole"]))
    role = RoleRef(api_group=group, kind="ClusterRole", name="certificates")
    await admin.uncached.create(ClusterRoleBinding(metadata=meta, role_ref=role, subjects=subjects))


async def publish_webhooks(admin: Cluster, port: int) -> None:
    """Create the Service with the balancer behind it, and the webhook configurations without a ``caBundle``."""
    # Endpoints in the loopback range are not allowed.
    spec = ServiceSpec(type="ExternalName", external_name="localhost")
    await admin.uncached.create(Service(metadata=ObjectMeta(name="hooks", namespace=NAMESPACE), spec=spec))
    client_config = WebhookClientConfig(service=WebhookService(name="hooks", namespace=NAMESPACE, port=port))
    for tree in make_operator().webhook_configurations(client_config):
        meta = ObjectMeta(name=tree["metadata"]["name"])
        obj = Unstructured(tree["apiVersion"], tree["kind"], meta, {"webhooks": tree["webhooks"]})
        await admin.uncached.create(obj)


@asynccontextmanager
async def balancer(replicas: list[Operator], figures: Figures) -> AsyncIterator[int]:
    """Pass new connections to the replicas in turn. Returns the port."""
    turns = itertools.count()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = 0
        for _ in replicas:
            number = next(turns) % len(replicas)
            if await is_ready(replicas[number]):
                break
        figures.replicas[number] += 1
        server = replicas[number].webhook_server
        assert server is not None
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(relay(reader, inner_writer), relay(inner_reader, writer), return_exceptions=True)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()


async def is_ready(replica: Operator) -> bool:
    """Whether the readiness check of the certificates succeeds."""

    async def no_body() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    response = await replica.manager.readyz.handle(
        HttpRequest("GET", "/readyz/webhook-certificates", Query(), {}, no_body)
    )
    return response is not None and response.status == 200


# ------------------------------------------------------------------ the load
async def call_webhooks(caller: int, admin: Cluster, figures: Figures) -> None:
    """Create pages for ever; each calls both webhooks."""
    for number in itertools.count():
        page = Page(metadata=ObjectMeta(name=f"page-{caller}-{number}", namespace=NAMESPACE), spec=PageSpec())
        try:
            await admin.uncached.create(page, dry_run=True)
        except OpsdkError as error:
            figures.failures[str(error)] += 1
        figures.calls[caller] += 1


async def shake_hands(admin: Cluster, replicas: list[Operator], figures: Figures) -> None:
    """Connect to the replicas that are ready, for ever, and verify them as an API server would."""
    for replica in itertools.cycle(replicas):
        if not await is_ready(replica):
            figures.unready += 1
            await asyncio.sleep(0.01)
            continue
        bundle = await ca_bundle(admin)
        context = ssl.create_default_context(cadata=bundle.decode())
        server = replica.webhook_server
        assert server is not None
        try:
            _, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=context, server_hostname="hooks.default.svc"
            )
            writer.close()
        except OSError as error:
            figures.failures[repr(error)] += 1
        figures.handshakes += 1


async def ca_bundle(admin: Cluster) -> bytes:
    """Return the caBundle that the API server uses now."""
    kind = unstructured_kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
    configuration: JsonObject = (await admin.uncached.get(kind, CONFIGURATION)).content
    return base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])


async def rotate(admin: Cluster) -> None:
    """Request a new CA, and return when the old one is dropped."""
    before = await admin.uncached.get(Secret, "hooks-tls", namespace=NAMESPACE)
    old = before.data["ca.crt"].strip()
    annotation = {"metadata": {"annotations": {"opsdk.dev/renew": "ca"}}}
    await admin.uncached.patch(
        Secret(metadata=ObjectMeta(name="hooks-tls", namespace=NAMESPACE)), merge_patch(annotation)
    )
    while True:
        secret = await admin.uncached.get(Secret, "hooks-tls", namespace=NAMESPACE)
        if old not in secret.data["ca.crt"] and secret.data["ca.crt"] == await ca_bundle(admin):
            return
        await asyncio.sleep(0.1)


class StepLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the system's, plus steps. Certificates are verified by the real wall clock."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0

    def time(self) -> float:
        """Return the system's monotonic time plus all steps."""
        return super().time() + self._ahead

    def step(self, seconds: float) -> None:
        """Move the time. Timers that are due run in the next iteration."""
        self._ahead += seconds


async def drive(figures: Figures, callers: int) -> None:
    """Advance the time for ever: slowly while no call is made, then with the calls."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, StepLoop)
    while True:
        calls, looks = Counter(figures.calls), figures.handshakes + figures.unready
        if figures.calls and not figures.ended:
            # The call that goes on now began before: the next one counts.
            while (
                any(figures.calls[n] < calls[n] + 2 for n in range(callers))
                or figures.handshakes + figures.unready == looks
            ):
                await asyncio.sleep(0.005)
                if figures.ended:
                    break  # type: ignore[unreachable]  # set while this waits
            loop.step(_TICK)
        else:
            await asyncio.sleep(0.005)
            loop.step(0.05)


def measure(rotations: int, *, replicas: int = 3, callers: int = 3) -> Figures:
    """Replace the CA so many times under load, on a loop of its own, and return the figures."""

    async def drive_and_measure() -> Figures:
        figures = Figures()
        async with asyncio.TaskGroup() as group:
            driving = group.create_task(drive(figures, callers))
            await measure_with(figures, rotations, replicas, callers)
            driving.cancel()
        return figures

    with asyncio.Runner(loop_factory=StepLoop) as runner:
        return runner.run(drive_and_measure())


async def measure_with(figures: Figures, rotations: int, replicas: int, callers: int) -> None:
    """Fill the figures."""
    async with AsyncExitStack() as stack:
        env = await stack.enter_async_context(envtest.Environment(crds=[crd_for(Page)], hot_loop_limit=0))
        admin = await stack.enter_async_context(Cluster(env.config))
        await allow(admin, "operator")
        user = env.add_user("operator")
        operators: list[Operator] = []
        await publish_webhooks(admin, await stack.enter_async_context(balancer(operators, figures)))
        operators += [make_operator() for _ in range(replicas)]
        for operator in operators:
            await stack.enter_async_context(running(operator, user.config))
        load = [call_webhooks(number, admin, figures) for number in range(callers)]
        load.append(shake_hands(admin, operators, figures))
        tasks = [asyncio.create_task(work) for work in load]
        began = time.perf_counter()
        for _ in range(rotations):
            rotation = asyncio.create_task(rotate(admin))
            ended, _ = await asyncio.wait([rotation, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
            figures.rotations += 1
        figures.seconds = time.perf_counter() - began
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        figures.ended = True


def main(rotations: int = 100) -> None:
    """Print the figures."""
    # Replicas that are not ready for a moment are part of the measurement.
    logging.getLogger("opsdk").setLevel(logging.CRITICAL)
    print(measure(rotations))
