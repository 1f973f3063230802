"""The operator against the in-process API server, whose containers are the functions of `Server`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from envtest import Environment
from envtest.groups.core.rest.responders import Command
from opsdk import Client, Cluster, GroupVersionKind, Model, Object, ObjectMeta, crd_for
from opsdk.api.core.v1 import Secret
from opsdk.apiserver.streams.pipe import Pipe
from opsdk.errors import InvalidError
from opsdk.recipes import get_condition
from opsdk.testing.eventually import eventually
from opsdk.testing.rules import assert_rules, observed_rules
from opsdk.testing.running import running
from postgres import STARTED, Postgres, PostgresSpec, make_operator

KEY = "default/orders"


class CertificateSpec(Model):
    """The part of cert-manager's spec that the operator reads."""

    secret_name: str


class Certificate(Object[CertificateSpec, dict[str, Any]]):
    """The kind of cert-manager."""

    gvk = GroupVersionKind("cert-manager.io", "v1", "Certificate")


class Server:
    """Answers for the containers: a log that waits for `started`, and psql, which fails `failures` times."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.failures = 0
        self.scripts: list[str] = []

    async def log(self) -> AsyncGenerator[bytes, None]:
        """Write one line, and after the start the line that the operator waits for."""
        yield b"initialising\n"
        await self.started.wait()
        yield f"{STARTED}; ready for start up.\n".encode()
        await asyncio.sleep(3600)

    async def run(self, command: Command, pipe: Pipe) -> int:
        """Run psql: keep its script."""
        script = (await pipe.read_all()).decode()
        if self.failures:
            self.failures -= 1
            await pipe.write_error("psql: the database system is shutting down")
            return 2
        self.scripts.append(script)
        return 0


@asynccontextmanager
async def operated() -> AsyncIterator[tuple[Client, Server]]:
    """Run the operator in a cluster that knows certificates, with one Postgres."""
    server = Server()
    async with Environment(controllers="cluster", crds=[crd_for(Certificate)]) as env, Cluster(env.config) as user:
        env.responders.logs = lambda pod, container: server.log()
        env.responders.run = server.run
        operator = make_operator()
        with observed_rules(operator) as observed:
            async with running(operator, env):
                spec = PostgresSpec(certificate="orders-tls", schema="shop")
                await user.uncached.create(Postgres(metadata=ObjectMeta(name="orders", namespace="default"), spec=spec))
                yield user.uncached, server
        assert_rules(observed, operator.rules())


async def issue_certificate(client: Client) -> None:
    """Do what cert-manager does."""
    meta = ObjectMeta(name="orders-tls", namespace="default")
    await client.create(Certificate(metadata=meta, spec=CertificateSpec(secret_name="orders-tls")))


async def wait_ready(client: Client, status: str, message: str = "") -> None:
    """Wait until the condition Ready has a status and a message with a text."""

    async def is_shown() -> bool:
        found = (await client.get(Postgres, KEY)).status
        condition = get_condition(found.conditions if found else [], "Ready")
        assert condition is not None
        assert (condition.status, message in condition.message) == (status, True), condition
        return True

    await eventually(is_shown, within=600)


async def password(client: Client) -> str:
    """Return the password of the Secret."""
    return (await client.get(Secret, KEY)).data["password"].decode()


async def test_a_database_is_initialised_once() -> None:
    """Certificate, log line, and command come in order; the condition says what is missing."""
    async with operated() as (client, server):
        await wait_ready(client, "False", "Certificate default/orders-tls")
        await issue_certificate(client)
        await wait_ready(client, "False", "self.status.started")
        assert not server.scripts
        server.failures = 1
        server.started.set()
        await wait_ready(client, "True")
        assert server.scripts == [
            f"ALTER USER postgres PASSWORD '{await password(client)}';\nCREATE SCHEMA IF NOT EXISTS shop;\n"
        ]


async def test_a_deleted_secret_is_a_new_password() -> None:
    """The server gets the password of the new Secret; the schema stays."""
    async with operated() as (client, server):
        await issue_certificate(client)
        server.started.set()
        await wait_ready(client, "True")
        before = await password(client)
        await client.delete(await client.get(Secret, KEY))
        await eventually(lambda: len(server.scripts) == 2, within=600)
        assert await password(client) != before
        assert await password(client) in server.scripts[1]


async def test_the_policy_keeps_the_schema() -> None:
    """An update of the field is refused."""
    async with operated() as (client, _):
        database = await client.get(Postgres, KEY)
        database.spec.schema = "other"
        with pytest.raises(InvalidError, match=r"spec\.schema: the schema cannot be renamed"):
            await client.update(database)
