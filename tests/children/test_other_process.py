"""A process notices another one of the same operator."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial

import pytest

import envtest
from opsdk import Cluster, Context, ControllerOptions, ObjectMeta, Operator, OperatorOptions
from opsdk.aio.clock import utc_now
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.meta import ManagedFieldsEntry
from opsdk.children.other_process import Creation, OtherProcess
from opsdk.fleet import ControllerClass, Fleet, StaticClusters
from opsdk.testing.running import running

MESSAGE = "Two processes of this operator run without leader election"


def make_copier(name: str = "copier", options: OperatorOptions | None = None, *, shared: str = "") -> Operator:
    """Return an operator that applies a ConfigMap for each Secret, or one for all."""
    operator = Operator(name, options)

    @operator.reconciler(Secret, owns=[ConfigMap], options=ControllerOptions(max_concurrent_reconciles=4))
    async def reconcile(secret: Secret, ctx: Context) -> None:
        child = ConfigMap(metadata=ObjectMeta(name=shared or secret.metadata.name), data={"from": "a secret"})
        await (ctx.apply(child, owner=None) if shared else ctx.apply(child))

    return operator


def make_fleet() -> Operator:
    """Return a replica of a fleet: its controller runs on every replica."""
    operator = Operator("copier", OperatorOptions(leader_election_namespace="default"))
    fleet = Fleet(operator, StaticClusters({}))

    @fleet.reconciler(Secret, owns=[ConfigMap], controller_class=ControllerClass.API)
    async def reconcile(secret: Secret, ctx: Context) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=secret.metadata.name)))

    @fleet.reconciler(Secret)
    async def reconcile_managed(secret: Secret, ctx: Context) -> None: ...

    return operator


async def create_secrets(cluster: Cluster, *names: str) -> None:
    """Create Secrets at the same time, and wait until they are reconciled."""
    secrets = [Secret(metadata=ObjectMeta(name=name, namespace="default")) for name in names]
    await asyncio.gather(*map(cluster.uncached.create, secrets))
    await asyncio.sleep(5)


async def test_the_second_process_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Both see a new object at the same time: one creates the child, and the other one says what it found."""
    async with (
        envtest.Environment() as env,
        Cluster(env.config) as user,
        running(make_copier(), env),
        running(make_copier(), env),
    ):
        await create_secrets(user, "a", "b", "c")
    warnings = [record.getMessage() for record in caplog.records if MESSAGE in record.getMessage()]
    assert 1 <= len(warnings) <= 2
    assert warnings[0].startswith("ConfigMap default/")
    assert "the field manager copier/secret" in warnings[0]


ELECTION = OperatorOptions(leader_election=True, leader_election_namespace="default")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (make_copier(), make_copier("other")),
        (make_copier(options=ELECTION), make_copier(options=ELECTION)),
        (make_copier(shared="all"), make_copier("other", shared="everything")),
        (make_fleet(), make_fleet()),
    ],
    ids=["another name", "leader election", "a child of several objects", "a fleet"],
)
async def test_others_are_not_taken_for_it(first: Operator, second: Operator, caplog: pytest.LogCaptureFixture) -> None:
    """Neither an operator of another name, nor a standby, nor the other workers of a process, nor replicas."""
    async with envtest.Environment() as env, Cluster(env.config) as user, running(first, env), running(second, env):
        await create_secrets(user, "a", "b", "c", "d")
    assert not [record for record in caplog.records if MESSAGE in record.getMessage()]


def test_only_an_object_of_this_moment_counts(caplog: pytest.LogCaptureFixture) -> None:
    """A child outside of the selectors of the cache is applied by each process, without another one."""
    other, meta = OtherProcess(), ObjectMeta(name="a", managed_fields=[ManagedFieldsEntry(manager="copier")])
    meta.creation_timestamp = utc_now() - timedelta(minutes=2)
    check = partial(other.check, Creation(), meta=meta, field_owner="copier", child="ConfigMap default/a")
    check(200)
    meta.creation_timestamp = utc_now()
    check(201)
    assert not caplog.records
    check(200)
    assert MESSAGE in caplog.text


async def test_a_restart_is_not_taken_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """A new process lists what the former one has created."""
    caplog.set_level(logging.WARNING)
    async with envtest.Environment() as env, Cluster(env.config) as user:
        for name in ("a", "b"):
            async with running(make_copier(), env):
                await create_secrets(user, name)
    assert not [record for record in caplog.records if MESSAGE in record.getMessage()]
