"""Several field managers of one object: of one operator, of a renamed one, and of others."""

from __future__ import annotations

import asyncio
import copy
import logging
from typing import Any

import pytest

import envtest
from opsdk import Cluster, Context, ObjectMeta, Operator, Request
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.builder.arguments import WatchSpec
from opsdk.children.applier import Applier
from opsdk.children.contention import Contention
from opsdk.children.former_owners import FormerOwners
from opsdk.children.ownership import APPLY, managers_of
from opsdk.errors import ContendedError
from opsdk.telemetry.records import Contended, Record, Requested, TelemetryHook
from opsdk.testing.running import running
from tests.children.childkit import counted_client


def config(name: str = "a", **data: str) -> ConfigMap:
    """A desired config map."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


def managers(obj: Any) -> dict[tuple[str, str], set[str]]:
    """The data keys that each manager owns."""
    return {
        (entry.manager, entry.operation): {
            name[2:] for name in (entry.fields_v1 or {}).get("f:data", {}) if name != "."
        }
        for entry in obj.metadata.managed_fields
        if entry.fields_v1 and "f:data" in entry.fields_v1
    }


def operator_of(values: dict[str, dict[str, str]]) -> Operator:
    """An operator whose controllers apply one config map for each Secret."""
    operator = Operator("shop")
    for name, data in values.items():

        async def reconcile(obj: Secret, ctx: Context, data: dict[str, str] = data) -> None:
            if obj.metadata.namespace == "default":
                await ctx.apply(config("shared", **data), owner=None)

        def secret_of(obj: ConfigMap) -> list[Request]:
            return [Request("default", "s")] if obj.metadata.name == "shared" else []

        watches = [WatchSpec(kind=ConfigMap, handler=secret_of)]
        operator.reconciler(Secret, name=name, watches=watches)(reconcile)
    return operator


# ------------------------------------------------------------------ controllers of one operator
async def test_controllers_of_one_operator_apply_different_fields_in_peace() -> None:
    """Each has a field manager of its own: the fields of both stay, and nothing is written again."""
    operator = operator_of({"one": {"x": "1"}, "two": {"y": "2"}})
    async with counted_client() as counted, running(operator, counted.cluster):
        await counted.uncached.create(Secret(metadata=ObjectMeta(name="s", namespace="default")))
        await asyncio.sleep(10)
        live = await counted.uncached.get(ConfigMap, "default/shared")
        assert live.data == {"x": "1", "y": "2"}
        assert managers(live) == {("shop/one", APPLY): {"x"}, ("shop/two", APPLY): {"y"}}
        await asyncio.sleep(60)
        again = await counted.uncached.get(ConfigMap, "default/shared")
        assert again.metadata.resource_version == live.metadata.resource_version


async def test_controllers_of_one_operator_that_fight_are_named_and_slowed(caplog: pytest.LogCaptureFixture) -> None:
    """Two controllers that fight over a field are named, and write few times in ten minutes."""
    caplog.set_level(logging.WARNING)
    operator = operator_of({"one": {"x": "1"}, "two": {"x": "2"}})
    applies: list[str] = []
    contended: list[Contended] = []

    class Applies(TelemetryHook):
        def record(self, record: Record) -> None:
            if isinstance(record, Contended):
                contended.append(record)
            if isinstance(record, Requested) and record.request is not None and record.method == "PATCH":
                applies.append(record.request.name)

    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        task = asyncio.create_task(operator.start(env.config, hooks=[Applies()]))
        await asyncio.sleep(1)
        await cluster.uncached.create(Secret(metadata=ObjectMeta(name="s", namespace="default")))
        await asyncio.sleep(600)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert 4 <= len(applies) <= 40
    lines = [record.getMessage() for record in caplog.records if "the next write waits" in record.getMessage()]
    assert any("shop/one" in line and "shop/two" in line for line in lines)
    # Each log line is a record: a metric counts it.
    assert len(contended) == len(lines)
    assert {(record.field_owner, record.kind) for record in contended} == {
        ("shop/one", "ConfigMap"),
        ("shop/two", "ConfigMap"),
    }


async def test_two_managers_that_fight_are_named_and_slowed(caplog: pytest.LogCaptureFixture) -> None:
    """Two programs apply different values: the writes get rare, and the log names both managers."""
    caplog.set_level(logging.WARNING)
    async with counted_client() as counted:
        appliers = [Applier(counted.client, field_owner=name) for name in ("red", "blue")]
        errors: list[str] = []
        for _ in range(600):
            for applier in appliers:
                try:
                    await applier.apply(config(color=applier.field_owner))
                except ContendedError as error:
                    errors.append(str(error))
            await asyncio.sleep(0.1)
        assert len(counted.writes) <= 30
        assert len(errors) >= 500
        assert all("red" in error and "blue" in error for error in errors)
    lines = [record.getMessage() for record in caplog.records if "each apply again after the other" in record.message]
    assert lines
    assert all("red" in line and "blue" in line for line in lines)


async def test_two_appliers_with_one_manager_are_slowed_too() -> None:
    """Each apply removes the fields of the other one, under the same name."""
    async with counted_client() as counted:
        appliers = {name: Applier(counted.client, field_owner="same") for name in ("x", "y")}
        for _ in range(300):
            for name, applier in appliers.items():
                try:
                    await applier.apply(config(**{name: "1"}))
                except ContendedError:
                    continue
            await asyncio.sleep(0.1)
        assert len(counted.writes) <= 30


async def test_single_repairs_are_not_slowed() -> None:
    """Another client changes a field once a minute, and it is repaired each time at once."""
    async with counted_client() as counted:
        applier = Applier(counted.client, field_owner="me")
        for number in range(50):
            live = await applier.apply(config(x="1"))
            assert live.data == {"x": "1"}
            live.data["x"] = str(number)
            await counted.uncached.update(live, field_owner="kubectl-edit")
            await asyncio.sleep(61)


def test_the_delay_grows_and_ends() -> None:
    """The delay of a fight grows from a second to five minutes, and ends after a calm minute."""
    contention, now, delays = Contention(), 0.0, []
    for _ in range(20):
        wait = contention.wait(now=now)
        delays.append(wait)
        now += wait
        contention.written(now=now)
    assert delays[:5] == [0.0] * 5
    assert delays[5:9] == [1.0, 2.0, 4.0, 8.0]
    assert delays[-1] == 300.0
    assert contention.wait(now=now + 361) == 0.0


# ------------------------------------------------------------------ former field owners
async def test_a_new_field_manager_sends_nothing_while_nothing_differs() -> None:
    """After an upgrade from one manager for all controllers, the first difference migrates the object."""
    async with counted_client() as counted:
        await Applier(counted.client, field_owner="shop").apply(config(x="1", y="1"))
        counted.writes.clear()
        applier = Applier(counted.client, field_owner="shop/one", former_applier="shop")
        await applier.apply(config(x="1", y="1"))
        assert counted.writes == []
        await applier.apply(config(x="2"))
        assert counted.writes == ["PatchObject", "Apply"]
        live = await counted.uncached.get(ConfigMap, "default/a")
        assert live.data == {"x": "2"}
        assert managers(live) == {("shop/one", APPLY): {"x"}}
        counted.writes.clear()
        await Applier(counted.client, field_owner="shop/one", former_applier="shop").apply(config(x="2"))
        assert counted.writes == []


async def test_a_former_applier_keeps_its_updates() -> None:
    """The operator still updates under its own name: those fields are not part of the apply."""
    async with counted_client() as counted:
        await counted.uncached.create(config(mine="yes"), field_owner="shop")
        applier = Applier(counted.client, field_owner="shop/one", former_applier="shop")
        await applier.apply(config(x="1"))
        live = await applier.apply(config(y="1"))
        assert live.data == {"mine": "yes", "y": "1"}


@pytest.mark.parametrize("by_apply", [True, False])
async def test_a_renamed_operator_prunes_and_drops_fields(by_apply: bool) -> None:
    """With `former_field_owners`, fields that the former name set are removed when they are no longer desired."""
    async with counted_client() as counted:
        owner = await counted.uncached.create(config("owner"))
        former = Applier(counted.client, field_owner="old")
        if by_apply:
            await former.apply(config(x="1", y="1"), owner=owner)
        else:
            await counted.uncached.create(config(x="1", y="1"), field_owner="old")
        await former.apply(config("dropped", x="1"), owner=owner)
        applier = Applier(counted.client, field_owner="new", former_field_owners=["old"])
        await applier.apply_all([config(x="1")], owner=owner, prune=[ConfigMap])
        live = await counted.uncached.get(ConfigMap, "default/a")
        assert live.data == {"x": "1"}
        assert managers(live) == {("new", APPLY): {"x"}}
        assert await counted.uncached.get_or_none(ConfigMap, "default/dropped") is None
        counted.writes.clear()
        await applier.apply_all([config(x="1")], owner=owner, prune=[ConfigMap])
        assert counted.writes == []


async def test_created_then_applied_fields_can_be_dropped() -> None:
    """With its own name among the former ones, an applier takes over the fields of its `create`."""
    async with counted_client() as counted:
        await counted.uncached.create(config(x="1", y="1"), field_owner="me")
        applier = Applier(counted.client, field_owner="me", former_field_owners=["me"])
        await applier.apply(config(x="1", y="1"))
        live = await applier.apply(config(x="1"))
        assert live.data == {"x": "1"}


async def test_an_option_of_the_cluster_names_former_owners() -> None:
    """`ClusterOptions.former_field_owners` reaches the applier of each controller."""
    async with counted_client() as counted:
        await Applier(counted.client, field_owner="old").apply(config("shared", x="1", y="1"))
        cluster: Cluster = counted.cluster
        assert cluster.applier(controller="one").field_owner.endswith("/one")
        assert cluster.applier(controller="one") is cluster.applier(controller="one")
        assert len(cluster.applier(controller="x" * 200).field_owner) == 128


def test_the_entry_of_a_former_manager_is_converted() -> None:
    """As csaupgrade, the newest former entry becomes the applier's; others and subresources stay."""
    tree = {
        "metadata": {
            "resourceVersion": "7",
            "managedFields": [
                _entry("old", "Update", {"f:data": {"f:x": {}}}, time="2026-01-01T00:00:00Z"),
                _entry("old", "Apply", {"f:data": {"f:y": {}}}, time="2026-01-02T00:00:00Z"),
                _entry("old", "Update", {"f:status": {}}, subresource="status"),
                _entry("other", "Update", {"f:data": {"f:z": {}}}),
            ],
        }
    }
    before = copy.deepcopy(tree)
    owners = FormerOwners("new", ["old"])
    assert owners.owner_in(tree) is None
    fields, version = owners.patch(tree)
    assert version == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    entries = [(entry["manager"], entry["operation"], entry["fieldsV1"]) for entry in fields["value"]]
    assert entries == [
        ("old", "Update", {"f:status": {}}),
        ("other", "Update", {"f:data": {"f:z": {}}}),
        ("new", "Apply", {"f:data": {"f:x": {}, "f:y": {}}}),
    ]
    assert tree == before
    after = {"metadata": {**tree["metadata"], "managedFields": fields["value"]}}
    assert owners.owner_in(after) == "new"
    assert not owners.entries(managers_of(after))


def _entry(manager: str, operation: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    entry = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return {**entry, "fieldsV1": fields, **more}
