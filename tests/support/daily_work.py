"""An operator that uses each word for daily work: logs, commands and files of a Pod, required and generated objects.

`ASYNC` has an async reconciler and daemon, `BLOCKING` plain functions in threads. Both do the same.
"""

from __future__ import annotations

import asyncio
import random
import tarfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pods_on_a_node import POD

import envtest
from envtest.groups.core.rest.responders import Command
from opsdk import (
    BlockingContext,
    Cluster,
    Context,
    GroupVersionKind,
    Model,
    Object,
    ObjectMeta,
    Operator,
    OperatorOptions,
    Result,
    Unstructured,
    crd_for,
    references,
)
from opsdk.api.core.v1 import ConfigMap, Node, Pod, Secret
from opsdk.apiserver.streams.pipe import Pipe
from opsdk.controller.applied_fields import FieldsOf
from opsdk.controller.daemons import DaemonSpec
from opsdk.errors import AlreadyExistsError, InvalidError, TemporaryError
from opsdk.event.cron import CronSchedule
from opsdk.rbac.rules import applies, attaches, executes, forwards_ports, patches_status, reads_logs
from opsdk.testing.simulate import Simulation, World
from opsdk.webhook.policies import AdmissionRule, policy

NAMESPACE = "default"
FILE = b"x" * 100_000
# Of each request into the Pod, so that faults hit it.
_SECONDS = 1.0
_POD_RULES = (executes, reads_logs, attaches, forwards_ports)


class ChoreSpec(Model):
    """What a chore needs."""

    credentials: str = "credentials"
    schedule: str = "*/30 * * * *"
    size: int = 1


class ChoreStatus(Model):
    """What a chore did."""

    output: str = ""
    password: str = ""
    waited: bool = False


class Chore(Object[ChoreSpec, ChoreStatus]):
    """A kind."""

    gvk = GroupVersionKind("chores.opsdk.dev", "v1", "Chore")


@policy(Chore)
class SmallChores:
    """The server refuses large chores."""

    rules = (AdmissionRule("object.spec.size < 4", message="too large"),)


class Container:
    """The container of the Pod: it knows the password of each chore, and counts requests."""

    def __init__(self) -> None:
        self.passwords: dict[str, str] = {}
        self.requests: Counter[str] = Counter()

    async def run(self, command: Command, pipe: Pipe) -> int:
        """Keep a password, serve copies of a file, or greet a client that attaches."""
        self.requests[command.argv[0] if command.argv else "attach"] += 1
        await asyncio.sleep(_SECONDS)
        if command.argv[:2] == ("tar", "cf"):
            header = tarfile.TarInfo("./data")
            header.size = len(FILE)
            await pipe.write(header.tobuf() + FILE + bytes(-len(FILE) % 512 + 1024))
            return 0
        data = await pipe.read_all() if command.stdin else b""
        if command.argv[:1] == ("passwd",):
            self.passwords[command.argv[1]] = data.decode()
        if not command.argv or command.argv[0] == "passwd":
            await pipe.write("done")
        return 0

    async def log(self, pod: Any, container: str) -> AsyncGenerator[bytes, None]:
        """Write two lines, with a pause."""
        self.requests["log"] += 1
        yield b"started\n"
        await asyncio.sleep(_SECONDS)
        yield b"ready\n"

    async def serve(self, pod: Any, port: int, pipe: Pipe) -> None:
        """Answer one message."""
        self.requests["port"] += 1
        await asyncio.sleep(_SECONDS)
        await pipe.write(b"pong" if await pipe.read() == b"ping" else b"?")


async def work_in_pod(cluster: Cluster, name: str, password: str) -> str:
    """Use each request into a Pod once, and return what came back."""
    pods, pod = cluster.pods, f"{NAMESPACE}/p"
    result = await pods.exec(pod, ["passwd", name], container="c", stdin=password.encode())
    if result.status:
        raise TemporaryError(result.stderr.decode())
    parts = [result.stdout.decode()]
    parts += [line async for line in pods.logs(pod, container="c", tail=2)]
    async with pods.attach(pod, container="c") as process:
        parts += [data.decode() async for _, data in process]
    async with pods.open_port(pod, 5432) as port:
        await port.write(b"ping")
        parts.append((await port.read()).decode())
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        await pods.copy_from(pod, "/data", copy, container="c")
        await pods.copy_to(pod, copy, "/data", container="c")
        parts.append(str(copy.read_bytes() == FILE))
    return " ".join(parts)


def _secret_of(chore: Chore) -> Secret:
    meta = ObjectMeta(name=f"{chore.metadata.name}-password")
    return Secret(metadata=meta, string_data={"password": f"p{random.randrange(10**9)}"})


def _mark_of(chore: Chore) -> ConfigMap:
    meta = ObjectMeta(name="theirs", annotations={f"chores.opsdk.dev/{chore.metadata.name}": "here"})
    return ConfigMap(metadata=meta)


def _next_time(chore: Chore, ctx: Context | BlockingContext) -> Result:
    return Result(requeue_after=CronSchedule(chore.spec.schedule).next(ctx.now) - ctx.now)


def _status_of(chore: Chore) -> ChoreStatus:
    return chore.status or ChoreStatus()


def make_operator() -> Operator:
    """Return the operator with async functions."""
    operator = _operator()

    async def wait(chore: Chore, ctx: Context) -> None:
        await ctx.cluster.wait_for(Secret, f"{NAMESPACE}/{chore.metadata.name}-password", until="create", within=600)
        async with ctx.status(chore) as patch:
            patch.status.waited = True

    @operator.reconciler(Chore, **_declared(wait))
    async def reconcile(chore: Chore, ctx: Context) -> Result:
        await ctx.require(Secret, chore.spec.credentials)
        secret = await ctx.create_once(_secret_of(chore))
        await ctx.apply_fields(_mark_of(chore))
        password = secret.data["password"].decode()
        if _status_of(chore).password != password:
            output = await work_in_pod(ctx.cluster, chore.metadata.name, password)
            async with ctx.status(chore) as patch:
                patch.status.output, patch.status.password = output, password
        return _next_time(chore, ctx)

    return operator


def make_blocking_operator() -> Operator:
    """Return the operator with plain functions, which run in threads."""
    operator = _operator()

    def wait(chore: Chore, ctx: BlockingContext) -> None:
        key = f"{NAMESPACE}/{chore.metadata.name}-password"
        ctx.run(ctx.target.cluster.wait_for(Secret, key, until="create", within=600))
        with ctx.status(chore) as patch:
            patch.status.waited = True

    @operator.reconciler(Chore, **_declared(wait))
    def reconcile(chore: Chore, ctx: BlockingContext) -> Result:
        ctx.require(Secret, chore.spec.credentials)
        secret = ctx.create_once(_secret_of(chore))
        ctx.apply_fields(_mark_of(chore))
        password = secret.data["password"].decode()
        if _status_of(chore).password != password:
            output = ctx.run(work_in_pod(ctx.target.cluster, chore.metadata.name, password))
            with ctx.status(chore) as patch:
                patch.status.output, patch.status.password = output, password
        return _next_time(chore, ctx)

    return operator


def _operator() -> Operator:
    operator = Operator("chores", OperatorOptions(leader_election=True, leader_election_namespace=NAMESPACE))
    operator.add_policy(SmallChores)
    return operator


def _declared(wait: Callable[[Chore, Any], object]) -> dict[str, Any]:
    return {
        "owns": [Secret, FieldsOf(ConfigMap)],
        "watches": [references(Secret, by=lambda chore: chore.spec.credentials)],
        "daemons": [DaemonSpec(function=wait, when=lambda chore: not _status_of(chore).waited)],
        "rbac": [applies(Secret), patches_status(Chore), *(rule(Pod) for rule in _POD_RULES)],
    }


# ------------------------------------------------------------------ what users do
async def write_chore(world: World) -> None:
    """Create a chore beside the Pod and the ConfigMap of others. The policy refuses some chores."""
    for obj in (
        Node(metadata=ObjectMeta(name="n")),
        Unstructured.from_tree(POD),
        ConfigMap(metadata=ObjectMeta(name="theirs", namespace=NAMESPACE)),
    ):
        with suppress(AlreadyExistsError):
            await world.client.create(obj)
    size, meta = world.rng.randrange(1, 5), ObjectMeta(name=f"chore-{world.rng.randrange(3)}", namespace=NAMESPACE)
    try:
        await world.client.create(Chore(metadata=meta, spec=ChoreSpec(size=size)))
    except InvalidError:
        assert size == 4
    except AlreadyExistsError:
        return


async def write_credentials(world: World) -> None:
    """Create what the chores require, as another operator does."""
    with suppress(AlreadyExistsError):
        await world.client.create(Secret(metadata=ObjectMeta(name="credentials", namespace=NAMESPACE)))


async def delete_credentials(world: World) -> None:
    """Delete what the chores require."""
    await world.client.delete(Secret, f"{NAMESPACE}/credentials", missing_ok=True)


async def delete_chore(world: World) -> None:
    """Delete a chore: its fields are taken back."""
    if chores := await world.client.list(Chore):
        await world.client.delete(world.rng.choice(list(chores)), missing_ok=True)


async def chores_are_done(world: World) -> None:
    """Each chore has its output and its password in the container, and exactly the chores that exist have a mark."""
    chores = list(await world.client.list(Chore))
    theirs = await world.client.get_or_none(ConfigMap, f"{NAMESPACE}/theirs")
    marks = {each.removeprefix("chores.opsdk.dev/") for each in (theirs.metadata.annotations if theirs else {})}
    assert marks <= {each.metadata.name for each in chores}, marks
    # Each chore was reconciled, also while it waits: a watch that is cut off in silence shows it late.
    assert all(each.metadata.finalizers for each in chores), chores
    if await world.client.get_or_none(Secret, f"{NAMESPACE}/credentials") is None:
        return
    for chore in chores:
        name, status = chore.metadata.name, _status_of(chore)
        secret = await world.client.get_or_none(Secret, f"{NAMESPACE}/{name}-password")
        assert secret is not None, f"{name} has no password"
        password = secret.data["password"].decode()
        assert chore.spec.size < 4, chore
        assert status == ChoreStatus(output="done started ready done pong True", password=password, waited=True), status
        assert CONTAINER.passwords[name] == password, CONTAINER.passwords
        assert name in marks, marks


def environment() -> envtest.Environment:
    """Return an environment whose containers are a new `CONTAINER`."""
    CONTAINER.passwords.clear()
    env = envtest.Environment(crds=[crd_for(Chore)])
    env.responders.run, env.responders.logs, env.responders.forwarded = CONTAINER.run, CONTAINER.log, CONTAINER.serve
    return env


CONTAINER = Container()
ASYNC = Simulation(
    operator=make_operator,
    environment=environment,
    actions=[
        write_credentials,
        write_credentials,
        write_chore,
        write_chore,
        write_chore,
        delete_chore,
        delete_credentials,
    ],
    check=chores_are_done,
    children=[Secret],
    max_actions=20,
    replicas=2,
)
BLOCKING = replace(ASYNC, operator=make_blocking_operator)
