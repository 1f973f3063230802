"""What a reconcile needs and does not write again: required objects, and objects that are created once."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from boxes import Box, box, records, running, writes

from opsdk import (
    Client,
    Condition,
    Context,
    ControllerOptions,
    LabelRequirements,
    MergeFrom,
    ObjectMeta,
    Operator,
    Request,
    references,
)
from opsdk.api.core.v1 import ConfigMap, Namespace, Secret
from opsdk.apimachinery.meta import OwnerReference
from opsdk.builder.arguments import WatchSpec
from opsdk.builder.options import OperatorOptions
from opsdk.cache.options import ByObject, CacheOptions
from opsdk.cluster.options import ClusterOptions
from opsdk.errors import AlreadyOwnedError, TerminatingError, UsageError
from opsdk.recipes.owner_references import controller_of

READY = ControllerOptions(ready_condition="Ready")
OTHER = OwnerReference(api_version="v1", kind="Pod", name="other", uid="u-1", controller=True)
PASSWORDS = iter(range(10**6))


def secret(name: str, **data: str) -> Secret:
    """Return a Secret."""
    return Secret(metadata=ObjectMeta(name=name, namespace="default"), string_data=data)


def generated(name: str) -> Secret:
    """Return a Secret with another password than any before."""
    return Secret(metadata=ObjectMeta(name=name), string_data={"password": f"p{next(PASSWORDS)}"})


async def ready_condition(client: Client) -> Condition:
    """Return the condition Ready of box a."""
    status = (await client.get(Box, "default/a")).status
    assert status is not None
    return next(c for c in status.conditions if c.type == "Ready")


# ------------------------------------------------------------------ require
async def test_a_missing_object_ends_the_reconcile_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """No error line and no retry: the condition says what is missing, and the object's event resumes the reconcile."""
    operator = Operator("boxes")

    @operator.reconciler(Box, watches=[references(Secret, by=lambda box: "credentials")], options=READY)
    async def reconcile(obj: Box, ctx: Context) -> None:
        credentials = await ctx.require(Secret, "credentials")
        async with ctx.status(obj) as patch:
            patch.status.size = len(credentials.data["password"])

    with caplog.at_level(logging.WARNING, logger="opsdk"):
        async with running(operator) as client:
            await client.create(box())
            await asyncio.sleep(3600)
            assert {record.result for record in records(operator)} == {"waiting"}
            assert len(records(operator)) < 4
            condition = await ready_condition(client)
            expected = ("False", "Waiting", "Secret default/credentials: does not exist")
            assert (condition.status, condition.reason, condition.message) == expected
            created = await client.create(secret("credentials", password="abc"))
            await asyncio.sleep(1)
            assert (await client.get(Box, "default/a")).status.size == 3
            assert (await ready_condition(client)).status == "True"
            await client.delete(created)
            await asyncio.sleep(1)
            assert (await ready_condition(client)).status == "False"
            assert all(record.attempt == 0 for record in records(operator))
    assert not [line for line in caplog.records if line.name != "opsdk.apiserver"]


async def test_an_object_is_awaited_until_it_is_ready() -> None:
    """`ready` is the same argument as that of `apply`."""
    operator = Operator("boxes")

    @operator.reconciler(Box, watches=[references(ConfigMap, by=lambda box: "other/settings")], options=READY)
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.require(ConfigMap, "other/settings", ready=lambda found: found.data.get("state") == "up")

    async with running(operator) as client:
        await client.create(Namespace(metadata=ObjectMeta(name="other")))
        settings = await client.create(ConfigMap(metadata=ObjectMeta(name="settings", namespace="other")))
        await client.create(box())
        await asyncio.sleep(1)
        condition = await ready_condition(client)
        assert condition.message.startswith("ConfigMap other/settings: ")
        settings.data["state"] = "up"
        await client.patch(settings, MergeFrom())
        await asyncio.sleep(1)
        assert (await ready_condition(client)).status == "True"


async def test_an_object_whose_events_resume_nothing_is_refused() -> None:
    """The error says what to declare. It does not depend on whether the object exists."""
    operator = Operator("boxes")

    @operator.reconciler(Box, options=ControllerOptions(error_condition="Failed"))
    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.require(Secret, "credentials")

    async with running(operator) as client:
        await client.create(secret("credentials", password="abc"))
        await client.create(box())
        await asyncio.sleep(1)
        detail = records(operator)[0].detail
        assert "Secret default/credentials is required, but no event of a Secret would resume the reconcile" in detail
        assert "add watches=[references(Secret, by=...)] to the reconciler" in detail


async def test_a_kind_without_namespaces_is_required_by_name() -> None:
    """A name alone has the request's namespace only where the kind has namespaces; requests may wait too."""
    operator = Operator("boxes")
    names: list[str] = []

    @operator.reconciler(Box, watches=[WatchSpec(kind=Namespace, handler=lambda _: [Request("default", "a")])])
    async def reconcile(request: Request, ctx: Context) -> None:
        names.append((await ctx.require(Namespace, "late")).metadata.name)

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(60)
        assert names == []
        await client.create(Namespace(metadata=ObjectMeta(name="late")))
        await asyncio.sleep(1)
        assert set(names) == {"late"}


# ------------------------------------------------------------------ create_once
def once(name: str, *, owner: bool = True, options: OperatorOptions | None = None) -> Operator:
    """Return an operator that generates a Secret, and copies its password into a ConfigMap."""
    operator = Operator("boxes", options)

    @operator.reconciler(Box, owns=[Secret, ConfigMap])
    async def reconcile(obj: Box, ctx: Context) -> None:
        admin = await ctx.create_once(generated(name), owner=obj if owner else None)
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="copy"), data={"p": admin.data["password"].decode()}))
        await ctx.apply_all([], prune=[Secret])

    return operator


async def password(client: Client, name: str = "admin") -> str:
    """Return what is in the Secret, which the ConfigMap repeats."""
    value = (await client.get(Secret, f"default/{name}")).data["password"].decode()
    assert (await client.get(ConfigMap, "default/copy")).data["p"] == value
    return value


async def test_a_generated_password_stays() -> None:
    """Later reconciles, and a new process, return what is there; no write follows, and a prune leaves it."""
    async with running(once("admin")) as client:
        live = await client.create(box())
        await asyncio.sleep(1)
        first = await password(client)
        live.spec.size = 2
        await client.patch(live, MergeFrom())
        await asyncio.sleep(3600)
        assert await password(client) == first
        reference = controller_of(await client.get(Secret, "default/admin"))
        assert reference is not None
        assert reference.uid == live.metadata.uid


async def test_a_stale_read_does_not_overwrite_a_password() -> None:
    """The cache that does not know the Secret costs one refused request."""
    blind = CacheOptions(by_kind={Secret.gvk: ByObject(label_selector=LabelRequirements.parse("cached=yes"))})
    operator = once("admin", options=OperatorOptions(cluster=ClusterOptions(cache=blind)))
    async with running(operator) as client:
        await client.create(secret("admin", password="theirs"))
        await client.create(box())
        await asyncio.sleep(1)
        assert await password(client) == "theirs"


async def test_what_is_there_is_adopted() -> None:
    """An object without a controller gets one, and keeps its data; the second reconcile writes nothing."""
    operator = once("admin")
    async with running(operator) as client:
        await client.create(secret("admin", password="theirs"))
        live = await client.create(box())
        await asyncio.sleep(60)
        assert await password(client) == "theirs"
        assert controller_of(await client.get(Secret, "default/admin")) is not None
        live.spec.size = 2
        await client.patch(live, MergeFrom())
        await asyncio.sleep(1)
        assert writes(records(operator)[-1]) == []


async def test_an_object_without_owner_has_none() -> None:
    """`owner=None` changes nothing of an object that is there."""
    async with running(once("admin", owner=False)) as client:
        before = await client.create(secret("admin", password="theirs"))
        await client.create(box())
        await asyncio.sleep(1)
        after = await client.get(Secret, "default/admin")
        assert after.metadata.resource_version == before.metadata.resource_version


@pytest.mark.parametrize(
    ("meta", "error"),
    [
        (
            {
                "owner_references": [
                    OwnerReference(api_version="v1", kind="Pod", name="other", uid="u-1", controller=True)
                ]
            },
            AlreadyOwnedError,
        ),
        ({"finalizers": ["demo.opsdk.dev/hold"]}, TerminatingError),
    ],
)
async def test_an_object_that_cannot_be_controlled_is_an_error(meta: dict[str, Any], error: type[Exception]) -> None:
    """Of another controller, or being deleted: it is not used as if it were the own one."""
    operator = Operator("boxes")
    raised: list[BaseException] = []

    @operator.reconciler(Box, owns=[Secret])
    async def reconcile(obj: Box, ctx: Context) -> None:
        try:
            await ctx.create_once(generated("admin"))
        except Exception as caught:
            raised.append(caught)
            raise

    async with running(operator) as client:
        existing = Secret(metadata=ObjectMeta(name="admin", namespace="default", **meta))
        await client.create(existing)
        if "finalizers" in meta:
            await client.delete(existing)
        await client.create(box())
        await asyncio.sleep(1)
        assert isinstance(raised[0], error)


async def test_an_object_without_a_name_is_refused() -> None:
    """`generate_name` would create another one at each reconcile."""
    operator = Operator("boxes")

    @operator.reconciler(Box)
    async def reconcile(obj: Box, ctx: Context) -> None:
        with pytest.raises(UsageError, match=r"needs metadata\.name"):
            await ctx.create_once(Secret(metadata=ObjectMeta(generate_name="admin-")))

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(1)
        assert [record.result for record in records(operator)] == ["success"]
