"""Children against a whole API server in this process: written where they differ, and explained."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from envtest.testing.effects import SlowWatch
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.kinds import metadata_only, unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import PartialObjectMetadata, Unstructured, to_dict
from opsdk.children.applier import Applier
from opsdk.children.drift import Drift
from opsdk.children.explanation import ApplyReason, Explanation
from opsdk.client.decorators.intercept import intercept
from opsdk.client.operations import Delete, Get, List, Operation
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.errors import (
    AlreadyOwnedError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TerminatingError,
    UsageError,
)
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.records import Record, Requested, TelemetryHook
from tests.children.childkit import CountedClient, counted_client, desired, environment, new_term, samples

DEPLOYMENT = next(tree for tree in samples() if tree["kind"] == "Deployment")


def config(name: str = "a", **data: str) -> ConfigMap:
    """A desired config map."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


def web(replicas: int = 3) -> Unstructured:
    """A desired deployment."""
    tree = copy.deepcopy(DEPLOYMENT)
    tree["spec"]["replicas"] = replicas
    return desired(tree)


async def owner_of(counted: CountedClient, name: str = "owner") -> ConfigMap:
    """An object on the server that owns others."""
    return await counted.uncached.create(config(name))


class Reasons(list[Explanation]):
    """Collects explanations."""

    @property
    def lines(self) -> list[str]:
        """Their texts, which are taken away."""
        lines = [str(explanation) for explanation in self]
        self.clear()
        return lines


# ------------------------------------------------------------------ writes and their reasons
async def test_each_write_has_its_reason() -> None:
    """Created, changed, added, removed, drifted, taken over; the log has the same lines."""
    async with counted_client() as counted:
        reasons = Reasons()
        applier = Applier(counted.client, field_owner="me", on_write=reasons.append)
        await applier.apply(config(x="1", y="1"))
        assert reasons.lines == ["ConfigMap default/a: created"]
        await applier.apply(config(x="2", y="1"))
        assert reasons.lines == ['ConfigMap default/a: data.x "1" -> "2"']
        await applier.apply(config(x="2", z="1"))
        assert reasons.lines == ['ConfigMap default/a: data.z added: "1"; data.y removed']
        await counted.uncached.patch(config(), merge_patch({"data": {"x": "9"}}), field_owner="kubectl-edit")
        live = await applier.apply(config(x="2", z="1"))
        assert live.data == {"x": "2", "z": "1"}
        assert reasons[0].reason is ApplyReason.DRIFT
        line = 'ConfigMap default/a: data.x "9" -> "2" (kubectl-edit changed it at 2026-01-01T00:00:00Z)'
        assert reasons.lines == [line]
        await counted.uncached.patch(config(), merge_patch({"data": {"q": "9"}}), field_owner="kubectl-edit")
        await applier.apply(config(x="2", z="1", q="1"))
        assert reasons.lines == ['ConfigMap default/a: data.q "9" -> "1" (taken over from kubectl-edit)']
        assert counted.writes == ["Apply"] * 5


async def test_reasons_are_logged_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    """One line for each write on the logger opsdk.children."""
    caplog.set_level(logging.DEBUG, logger="opsdk.children")
    async with counted_client() as counted:
        await Applier(counted.client, field_owner="me").apply(config(x="1"))
    assert [record.getMessage() for record in caplog.records if record.name == "opsdk.children"] == [
        "ConfigMap default/a: created"
    ]


async def test_an_object_of_others_is_taken_over_field_by_field() -> None:
    """A field with the desired value changes only its owner; both are named."""
    async with counted_client() as counted:
        await counted.uncached.create(config(x="1", y="2"), field_owner="helm")
        reasons = Reasons()
        await Applier(counted.client, field_owner="me", on_write=reasons.append).apply(config(x="1", y="1"))
        assert reasons[0].reason is ApplyReason.TAKEN_OVER
        line = 'ConfigMap default/a: data.y "2" -> "1" (taken over from helm); data.x (taken over from helm)'
        assert reasons.lines == [line]


async def test_no_value_of_a_secret_is_shown() -> None:
    """An explanation shows neither live nor desired values of a Secret, in any of its fields."""
    async with counted_client() as counted:
        reasons = Reasons()
        applier = Applier(counted.client, field_owner="me", on_write=reasons.append)
        meta = ObjectMeta(name="a", namespace="default")
        await applier.apply(Secret(metadata=meta, string_data={"password": "first"}))
        await counted.uncached.patch(
            Secret(metadata=meta), merge_patch({"data": {"password": "b3RoZXI="}}), field_owner="thief"
        )
        live = await applier.apply(Secret(metadata=meta, string_data={"password": "first"}))
        assert live.data == {"password": b"first"}
        assert reasons[1].reason is ApplyReason.DRIFT
        assert "(thief changed it" in str(reasons[1])
        await applier.apply(Secret(metadata=meta, data={"password": b"second"}))
        text = repr(reasons)
        assert "<redacted>" in text
        assert not any(word in text for word in ("first", "second", "Zmlyc3Q", "b3RoZXI", "c2Vjb25k"))


@pytest.mark.parametrize("field", ["string_data", "data"])
async def test_string_data_and_data_are_one_field(field: str) -> None:
    """With ``force=False``, a password of another manager is a conflict in both spellings, and stays."""

    def secret(text: str, name: str = field) -> Secret:
        value = {"password": text} if name == "string_data" else {"password": text.encode()}
        return Secret(metadata=ObjectMeta(name="a", namespace="default"), **{name: value})  # type: ignore[arg-type]

    async with counted_client() as counted:
        await counted.uncached.create(secret("first"), field_owner="me")
        # Of the same operator, but not by an apply: what it generates once with create.
        applier = Applier(counted.uncached, field_owner="me")
        with pytest.raises(ConflictError, match=r"\.data\.password"):
            await applier.apply(secret("second"), force=False)
        assert (await counted.uncached.get(Secret, "default/a")).data == {"password": b"first"}
        for spelling in ("string_data", "data", "string_data"):
            await applier.apply(secret("second", spelling))
        live = await counted.uncached.get(Secret, "default/a")
        assert live.data == {"password": b"second"}
        entry = next(m for m in live.metadata.managed_fields if m.operation == "Apply")
        assert entry.fields_v1 == {"f:data": {"f:password": {}}}
        version = live.metadata.resource_version
        for spelling in ("data", "string_data"):
            await applier.apply(secret("second", spelling))
        assert (await counted.uncached.get(Secret, "default/a")).metadata.resource_version == version
        await applier.apply(Secret(metadata=ObjectMeta(name="a", namespace="default")))
        assert (await counted.uncached.get(Secret, "default/a")).data == {}


async def test_the_desired_object_stays_as_it_is() -> None:
    """Applying leaves the desired object unchanged, so that several reconcilers can apply it again."""
    async with counted_client() as counted:
        owner = await owner_of(counted)
        wish = config(x="1")
        before = to_dict(wish)
        await Applier(counted.client, field_owner="me").apply(wish, owner=owner)
        assert to_dict(wish) == before


# ------------------------------------------------------------------ drift
async def test_drift_is_left_on_request() -> None:
    """The other's value stays and is explained once; other fields are still applied."""
    async with counted_client() as counted:
        reasons = Reasons()
        applier = Applier(counted.client, field_owner="me", drift=Drift.LEAVE, on_write=reasons.append)
        await applier.apply(web(3))
        await counted.uncached.patch(web(), merge_patch({"spec": {"replicas": 5}}), field_owner="kubectl-scale")
        counted.writes.clear()
        reasons.clear()
        for _ in range(3):
            assert (await applier.apply(web(3)))["spec"]["replicas"] == 5
        assert counted.writes == []
        assert [explanation.written for explanation in reasons] == [False]
        remaining = "(kubectl-scale changed it at 2026-01-01T00:00:00Z) (not reverted)"
        assert reasons.lines == [f"Deployment default/a: spec.replicas 5 -> 3 {remaining}"]
        changed = web(3)
        changed["spec"]["minReadySeconds"] = 7
        live = await applier.apply(changed)
        assert (live["spec"]["replicas"], live["spec"]["minReadySeconds"]) == (5, 7)
        assert reasons.lines == ["Deployment default/a: spec.minReadySeconds (missing) -> 7"]
        assert counted.writes == ["Apply"]
        await Applier(counted.client, field_owner="me", drift=Drift.LEAVE).apply(changed)
        assert counted.writes == ["Apply"]


async def test_drift_that_is_left_is_no_pending_write() -> None:
    """`pending` names exactly what `apply` would send: nothing for drift that is left, the rest otherwise."""
    async with counted_client() as counted:
        applier = Applier(counted.client, field_owner="me", drift=Drift.LEAVE)
        await applier.apply(web(3))
        await counted.uncached.patch(web(), merge_patch({"spec": {"replicas": 5}}), field_owner="kubectl-scale")
        assert await applier.pending(web(3)) is None
        changed = web(3)
        changed["spec"]["minReadySeconds"] = 7
        pending = await applier.pending(changed)
        assert pending is not None
        assert [change.path for change in pending.changes] == ["spec.minReadySeconds"]


async def test_drift_is_repaired_after_a_restart() -> None:
    """A new process knows from managedFields who changed the field."""
    async with counted_client() as counted:
        await Applier(counted.client, field_owner="me").apply(web(3))
        await counted.uncached.patch(web(), merge_patch({"spec": {"replicas": 5}}), field_owner="kubectl-scale")
        reasons = Reasons()
        live = await Applier(counted.client, field_owner="me", on_write=reasons.append).apply(web(3))
        assert live["spec"]["replicas"] == 3
        assert reasons[0].changes[0].manager == "kubectl-scale"


async def test_a_removed_value_is_restored() -> None:
    """A field that another manager removed is applied again."""
    async with counted_client() as counted:
        applier = Applier(counted.client, field_owner="me")
        await applier.apply(config(x="1", y="1"))
        await counted.uncached.patch(config(), merge_patch({"data": {"x": None}}), field_owner="other")
        assert (await applier.apply(config(x="1", y="1"))).data == {"x": "1", "y": "1"}


async def test_without_force_a_conflict_is_an_error() -> None:
    """The error names the field and its manager."""
    async with counted_client() as counted:
        await counted.uncached.create(config(x="1"), field_owner="helm")
        with pytest.raises(ConflictError, match=r'conflict with "helm".*\.data\.x'):
            await Applier(counted.client, field_owner="me").apply(config(x="2"), force=False)


# ------------------------------------------------------------------ what cannot be known
@asynccontextmanager
async def mutating(**values: str) -> AsyncIterator[CountedClient]:
    """A server whose admission changes config maps: it sets each of these values on every write."""
    async with counted_client() as counted:
        inner = counted.client

        async def admit(operation: Operation, proceed: Any) -> Any:
            result = await proceed(operation)
            if not isinstance(operation, Get | List):
                # The policy's write is as one within the request: the managers stay.
                tree = to_dict(result)
                patched = await counted.uncached.patch(
                    desired(tree), merge_patch({"data": values}), field_owner="policy"
                )
                result.metadata = patched.metadata
                result.content["data"] = patched["data"]
                result.__dict__["_origin"] = to_dict(patched)
            return result

        counted.client = intercept(inner, admit)
        yield counted


async def test_a_fight_with_admission_costs_one_write() -> None:
    """A value that the server changes on every write is applied once, not forever; then drift elsewhere is seen."""
    async with mutating(x="admitted") as counted:
        applier = Applier(counted.client, field_owner="me")
        for _ in range(4):
            await applier.apply(config(x="mine", y="1"))
        assert counted.writes == ["Apply"]
        await counted.uncached.patch(config(), merge_patch({"data": {"y": "2"}}), field_owner="other")
        await applier.apply(config(x="mine", y="1"))
        assert counted.writes == ["Apply"] * 2
        await counted.uncached.patch(config(), merge_patch({"data": {"x": "third"}}), field_owner="other")
        await applier.apply(config(x="mine", y="1"))
        assert counted.writes == ["Apply"] * 3


def strip(client: CountedClient) -> None:
    """Read objects without managedFields, as a cache with a transform returns them."""
    inner = client.client

    async def without_managers(operation: Operation, proceed: Any) -> Any:
        result = await proceed(operation)
        if isinstance(operation, Get) and not operation.options.uncached:
            result.metadata.managed_fields = []
            tree: JsonObject = to_dict(result)
            result.__dict__["_origin"] = {**tree, "metadata": {**tree["metadata"], "managedFields": []}}
        elif isinstance(operation, List) and not operation.options.uncached:
            for item in result:
                item.metadata.managed_fields = []
        return result

    client.client = intercept(inner, without_managers)


async def test_a_cache_may_strip_managed_fields() -> None:
    """Without managedFields, values are compared; each process applies once, and again after drift."""
    async with counted_client() as counted:
        strip(counted)
        for process in (1, 2):
            applier = Applier(counted.client, field_owner="me")
            for _ in range(3):
                await applier.apply(web(3))
            assert counted.writes == ["Apply"] * process
        await counted.uncached.patch(web(), merge_patch({"spec": {"replicas": 5}}), field_owner="other")
        assert (await applier.apply(web(3)))["spec"]["replicas"] == 3
        await applier.apply(web(4))
        assert counted.writes == ["Apply"] * 4


# ------------------------------------------------------------------ owners
async def test_a_child_of_another_owner_is_never_taken_over() -> None:
    """The error names the child, its controller and the owner; nothing is sent."""
    async with counted_client() as counted:
        first, second = await owner_of(counted, "first"), await owner_of(counted, "second")
        applier = Applier(counted.client, field_owner="me")
        await applier.apply(config(x="1"), owner=first)
        counted.writes.clear()
        with pytest.raises(AlreadyOwnedError) as caught:
            await applier.apply(config(x="2"), owner=second)
        for part in ("ConfigMap default/a", "first", first.metadata.uid, "default/second", second.metadata.uid):
            assert part in str(caught.value)
        assert counted.writes == []


async def test_a_stale_cache_does_not_take_a_child_over() -> None:
    """The server rejects a second controller; the error is the same."""
    async with counted_client() as counted:
        first, second = await owner_of(counted, "first"), await owner_of(counted, "second")
        await Applier(counted.client, field_owner="me").apply(config(x="1"), owner=first)

        async def stale(operation: Operation, proceed: Any) -> Any:
            if isinstance(operation, Get) and not operation.options.uncached:
                raise NotFoundError("the cache has not seen it")
            return await proceed(operation)

        applier = Applier(intercept(counted.client, stale), field_owner="you")
        with pytest.raises(AlreadyOwnedError, match="is controlled by ConfigMap first"):
            await applier.apply(config(x="2"), owner=second)
        with pytest.raises(InvalidError):
            await applier.apply(config("Not_A_Name"), owner=second)


async def test_an_owner_that_was_created_again_keeps_its_children() -> None:
    """An owner with the same kind and name replaces the earlier one; no other reference is left."""
    async with counted_client() as counted:
        owner = await owner_of(counted)
        applier = Applier(counted.client, field_owner="me")
        await applier.apply(config(x="1"), owner=owner)
        await counted.uncached.delete(owner)
        again = await owner_of(counted)
        live = await applier.apply(config(x="1"), owner=again)
        assert [reference.uid for reference in live.metadata.owner_references] == [again.metadata.uid]


async def test_a_deleted_owner_does_not_take_children_from_a_newer_one_of_its_name() -> None:
    """A reference to the deleted owner would let the garbage collector delete the child."""
    async with counted_client() as counted:
        applier = Applier(counted.client, field_owner="me")
        deleted = await owner_of(counted)
        await counted.uncached.delete(deleted)
        newer = await owner_of(counted)
        live = await applier.apply(config(x="1"), owner=newer)
        with pytest.raises(AlreadyOwnedError, match="no longer exists: the cache is old"):
            await applier.apply(config(x="1"), owner=deleted)
        current = await counted.uncached.get(ConfigMap, live.metadata.name, namespace=live.metadata.namespace)
        assert current.metadata.uid == live.metadata.uid
        assert current.metadata.owner_references == live.metadata.owner_references


async def test_a_deleted_owner_does_not_create_over_a_child_that_the_cache_lacks() -> None:
    """The apply would replace the reference to the newer owner. The owner is checked once in a pass."""
    async with counted_client() as counted:
        deleted = await owner_of(counted)
        await counted.uncached.delete(deleted)
        newer = await owner_of(counted)
        live = await Applier(counted.client, field_owner="me").apply(config(x="1"), owner=newer)

        async def stale(operation: Operation, proceed: Any) -> Any:
            if isinstance(operation, Get) and not operation.options.uncached:
                raise NotFoundError("the cache has not seen it")
            return await proceed(operation)

        applier = Applier(intercept(counted.client, stale), field_owner="me")
        with new_term(), pytest.raises(AlreadyOwnedError, match="no longer exists: the cache is old"):
            await applier.apply(config(x="1"), owner=deleted)
        current = await counted.uncached.get(ConfigMap, live.metadata.name, namespace=live.metadata.namespace)
        assert current.metadata.owner_references == live.metadata.owner_references
        counted.uncached_reads.clear()
        with new_term():
            await applier.apply_all([config("b"), config("c")], owner=newer, prune=[])
        assert counted.uncached_reads == ["Get"]


async def test_only_a_new_leader_gets_the_owner_before_it_creates() -> None:
    """Without another leader before, the cache began with a complete list."""
    async with counted_client() as counted:
        owner = await owner_of(counted)
        counted.uncached_reads.clear()
        await Applier(counted.client, field_owner="me").apply(config(x="1"), owner=owner)
        assert counted.uncached_reads == []


async def test_without_the_permission_to_get_an_owner_children_are_created() -> None:
    """A role may have list and watch only."""
    async with counted_client() as counted:
        owner = await owner_of(counted)

        async def forbidden(operation: Operation, proceed: Any) -> Any:
            if isinstance(operation, Get) and operation.options.uncached:
                raise ForbiddenError("no get")
            return await proceed(operation)

        applier = Applier(intercept(counted.client, forbidden), field_owner="me")
        with new_term():
            assert await applier.apply(config(x="1"), owner=owner)


# ------------------------------------------------------------------ deletion
async def test_a_terminating_object_is_not_applied() -> None:
    """The error names the finalizers; when the object is gone, it is created again."""
    async with counted_client() as counted:
        applier = Applier(counted.client, field_owner="me")
        wish = config(x="1")
        wish.metadata.finalizers = ["example.com/f"]
        first = await applier.apply(wish)
        await counted.uncached.delete(config())
        counted.writes.clear()
        with pytest.raises(TerminatingError, match=r"ConfigMap default/a has been terminating since .*example.com/f"):
            await applier.apply(wish)
        assert counted.writes == []
        await counted.uncached.patch(config(), merge_patch({"metadata": {"finalizers": None}}))
        second = await applier.apply(wish)
        assert second.metadata.uid != first.metadata.uid


async def test_an_apply_that_hits_a_terminating_object_is_an_error() -> None:
    """An apply to a terminating object raises, also if the cache learns of the deletion late."""
    async with counted_client() as counted:
        applier = Applier(counted.client, field_owner="me")
        wish = config(x="1")
        wish.metadata.finalizers = ["example.com/f"]
        await applier.apply(wish)
        await counted.uncached.delete(config())

        async def stale(operation: Operation, proceed: Any) -> Any:
            result = await proceed(operation)
            if isinstance(operation, Get):
                result.metadata.deletion_timestamp = None
            return result

        wish.data["x"] = "2"
        with pytest.raises(TerminatingError):
            await Applier(intercept(counted.client, stale), field_owner="me").apply(wish)


@asynccontextmanager
async def cached_world(hook: TelemetryHook | None = None, *, slow_watch: float = 0.0) -> AsyncIterator[Cluster]:
    """A cluster with a running cache, which may be behind by some seconds."""
    async with environment.Environment() as env, Cluster(env.config, hook=hook) as cluster:
        if slow_watch:
            env.faults.add(SlowWatch(slow_watch), verb="watch")
        task = asyncio.create_task(cluster.start())
        try:
            await cluster.wait_ready()
            yield cluster
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class CountedRequests(TelemetryHook):
    """Collects the requests to the server."""

    def __init__(self) -> None:
        self.requests: list[Requested] = []

    def record(self, record: Record) -> None:
        if isinstance(record, Requested):
            self.requests.append(record)


async def test_through_a_cache_nothing_is_requested() -> None:
    """At the fixpoint an applier neither reads nor writes; a changed status causes no request either."""
    counted = CountedRequests()
    async with cached_world(counted) as cluster:
        applier = Applier(cluster.client, field_owner="me")
        live = await applier.apply(web(3))
        await cluster.uncached.status().patch(live, merge_patch({"status": {"replicas": 3}}), field_owner="controller")
        await asyncio.sleep(1)
        counted.requests.clear()
        for again in (applier, Applier(cluster.client, field_owner="me")):
            assert (await again.apply(web(3)))["status"]["replicas"] == 3
        assert counted.requests == []


async def test_after_an_own_delete_the_object_is_created_again() -> None:
    """The cache shows own deletes at once."""
    async with cached_world() as cluster:
        applier = Applier(cluster.client, field_owner="me")
        first = await applier.apply(config(x="1"))
        await cluster.client.delete(config())
        second = await applier.apply(config(x="1"))
        assert second.metadata.uid != first.metadata.uid
        assert (await cluster.uncached.get(ConfigMap, "default/a")).metadata.uid == second.metadata.uid


@pytest.mark.parametrize("learn", ["get", "patch", "delete"])
async def test_a_dead_object_is_never_returned(learn: str) -> None:
    """A cache that is behind hides no deletion that a request of the same cluster has seen."""
    async with cached_world(slow_watch=60) as cluster, Cluster(cluster.config) as other:
        applier = Applier(cluster.client, field_owner="me")
        first = await applier.apply(config(x="1"))
        await other.uncached.delete(config())
        match learn:
            case "get":
                assert await cluster.client.get_or_none(ConfigMap, "default/a", uncached=True) is None
            case "patch":
                with pytest.raises(NotFoundError):
                    await cluster.client.patch(config(), merge_patch({"data": {"x": "2"}}))
            case "delete":
                await cluster.client.delete(config(), missing_ok=True)
        assert (await applier.apply(config(x="1"))).metadata.uid != first.metadata.uid


# ------------------------------------------------------------------ bad input
@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"kind": "ConfigMap", "metadata": {"namespace": "default"}}, r"ConfigMap .*has no metadata\.name"),
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, r"ConfigMap .*metadata\.namespace is empty"),
        ({"kind": "Namespace", "metadata": {"name": "a", "namespace": "b"}}, "cluster-scoped"),
        ({"kind": "Pod", "status": {"phase": "Running"}}, r"Pod default/a: status is set"),
        ({"kind": "ConfigMap", "data": {"x": 1}}, r"ConfigMap default/a: data\.x: expected string; the value is 1"),
        (
            {"kind": "ConfigMap", "dota": {"x": 1}},
            r"ConfigMap default/a: dota: field not declared in schema",
        ),
        ({"kind": "Secret", "stringData": {"x": 7}}, r"stringData\.x: expected string; the value is <redacted>"),
        (
            {"kind": "Pod", "spec": {"containers": [{"name": "c", "env": [{"name": "X"}, {"name": "X"}]}]}},
            r'Pod default/a: .*env: duplicate entries for key \[name="X"\]',
        ),
        (
            {"kind": "Pod", "spec": {"containers": [{"name": "c", "args": "x"}]}},
            r'spec\.containers\[name="c"\]\.args: expected list; the value is "x"',
        ),
        ({"kind": "ConfigMap", "metadata": {"managedFields": [{"manager": "x"}]}}, "was read from the server"),
    ],
)
async def test_bad_input_is_refused_before_any_request(tree: JsonObject, message: str) -> None:
    """The error names the kind, the field and its value."""
    requests: list[Operation] = []

    async def refuse(operation: Operation, proceed: Any) -> Any:
        requests.append(operation)
        raise AssertionError(operation)

    async with counted_client() as counted:
        applier = Applier(intercept(counted.client, refuse), field_owner="me")
        meta = {"name": "a", "namespace": "default"} if "name" not in str(tree.get("metadata")) else {}
        whole = {"apiVersion": "v1", **tree, "metadata": {**meta, **tree.get("metadata", {})}}
        if tree.get("metadata") == {"namespace": "default"}:
            whole["metadata"] = {"namespace": "default"}
        with pytest.raises(UsageError, match=message):
            await applier.apply(Unstructured.from_tree(whole))
    assert requests == []


async def test_metadata_alone_and_no_field_owner_are_refused() -> None:
    """A child without content and an applier without a field owner raise a usage error."""
    async with counted_client() as counted:
        with pytest.raises(UsageError, match="field_owner"):
            Applier(counted.client, field_owner="")
        metadata: Any = PartialObjectMetadata("v1", "ConfigMap", ObjectMeta(name="a", namespace="default"))
        with pytest.raises(UsageError, match="metadata alone"):
            await Applier(counted.client, field_owner="me").apply(metadata)


# ------------------------------------------------------------------ many children
async def names(counted: CountedClient) -> list[str]:
    """The config maps that are there."""
    return sorted(
        item.metadata.name
        for item in await counted.uncached.list(ConfigMap, namespace="default")
        if item.metadata.name != "kube-root-ca.crt"
    )


@pytest.mark.parametrize("stripped", [False, True])
@pytest.mark.parametrize("kind", [ConfigMap, unstructured_kind("v1", "ConfigMap"), metadata_only(ConfigMap)])
async def test_children_that_are_no_longer_desired_are_deleted(kind: Any, stripped: bool) -> None:
    """Pruning deletes undesired children, also after a restart, and keeps those of other owners and managers."""
    async with counted_client() as counted:
        if stripped:
            strip(counted)
        owner, other = await owner_of(counted), await owner_of(counted, "other")
        applier = Applier(counted.client, field_owner="me")
        live = await applier.apply_all([config(name, x="1") for name in "abc"], owner=owner, prune=[kind])
        assert [obj.metadata.name for obj in live] == ["a", "b", "c"]
        await applier.apply(config("of-another-owner"), owner=other)
        await applier.apply(config("without-owner"))
        await Applier(counted.client, field_owner="you").apply(config("of-another-manager"), owner=owner)
        foreign = config("created", x="1")
        foreign.metadata.owner_references = live[0].metadata.owner_references
        await counted.uncached.create(foreign, field_owner="me")
        reasons = Reasons()
        restarted = Applier(counted.client, field_owner="me", on_write=reasons.append)
        counted.writes.clear()
        await restarted.apply_all([config("a", x="1"), config("d")], owner=owner, prune=[kind])
        remaining = ["created", "of-another-manager", "of-another-owner", "other", "owner", "without-owner"]
        assert await names(counted) == sorted(["a", "d", *remaining])
        deleted = [line for line in reasons.lines if "deleted" in line]
        assert deleted == [f"ConfigMap default/{name}: deleted, it is no longer desired" for name in "bc"]
        counted.writes.clear()
        counted.uncached_reads.clear()
        await restarted.apply_all([config("a", x="1"), config("d")], owner=owner, prune=[kind])
        assert (counted.writes, counted.uncached_reads) == ([], [])


async def test_a_child_that_changes_meanwhile_is_judged_again() -> None:
    """The delete has preconditions: a child that another owner took in the meantime stays."""
    async with counted_client() as counted:
        owner, other = await owner_of(counted), await owner_of(counted, "other")
        await Applier(counted.client, field_owner="me").apply(config("a"), owner=owner)
        await Applier(counted.client, field_owner="me").apply(config("b"), owner=owner)

        async def meanwhile(operation: Operation, proceed: Any) -> Any:
            result = await proceed(operation)
            if isinstance(operation, List):
                taker = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other.metadata.uid}
                owners = merge_patch({"metadata": {"ownerReferences": [{**taker, "controller": True}]}})
                await counted.uncached.patch(config("a"), owners)
                await counted.uncached.patch(config("b"), merge_patch({"data": {"x": "1"}}))
            return result

        applier = Applier(intercept(counted.client, meanwhile), field_owner="me")
        await applier.apply_all([], owner=owner, prune=[ConfigMap])
        assert await names(counted) == ["a", "other", "owner"]


async def test_a_child_that_always_changes_is_not_pruned_for_ever() -> None:
    """After some attempts a conflict is raised, so that the reconcile is retried with a delay."""
    async with counted_client() as counted:
        owner = await owner_of(counted)
        await Applier(counted.client, field_owner="me").apply(config("a"), owner=owner)
        attempts: list[Operation] = []

        async def conflict(operation: Operation, proceed: Any) -> Any:
            if isinstance(operation, Delete):
                attempts.append(operation)
                raise ConflictError("changed")
            return await proceed(operation)

        with pytest.raises(ConflictError, match="ConfigMap default/a changed 5 times"):
            await Applier(intercept(counted.client, conflict), field_owner="me").apply_all(
                [], owner=owner, prune=[ConfigMap]
            )
        assert len(attempts) == 6


@pytest.mark.parametrize("concurrency", [1, 2, 50])
async def test_an_error_ends_the_pass_before_anything_is_pruned(concurrency: int) -> None:
    """After an error, applied children stay and nothing is deleted."""
    async with counted_client() as counted:
        owner = await owner_of(counted)
        applier = Applier(counted.client, field_owner="me")
        await applier.apply_all([config("old")], owner=owner)
        bad: Sequence[ConfigMap] = [config("a"), config("Bad_Name"), config("b")]
        with pytest.raises(InvalidError):
            await applier.apply_all(bad, owner=owner, prune=[ConfigMap], concurrency=concurrency)
        assert "old" in await names(counted)
        assert ("b" in await names(counted)) == (concurrency > 1)


async def test_an_object_is_desired_once() -> None:
    """Two objects of one kind with one name are a mistake."""
    async with counted_client() as counted:
        owner = await owner_of(counted)
        with pytest.raises(UsageError, match="ConfigMap default/a is desired twice"):
            await Applier(counted.client, field_owner="me").apply_all([config(x="1"), config(x="2")], owner=owner)


async def test_typed_children_come_back_typed() -> None:
    """The live object has the class of the desired one, with the server's defaults, when written and when not."""
    async with counted_client() as counted:
        applier = Applier(counted.client, field_owner="me")
        from opsdk.apimachinery.codec import decode_tree
        from opsdk.apimachinery.kinds import kind_of

        for _ in range(2):
            wish = decode_tree(copy.deepcopy(DEPLOYMENT), kind_of(Deployment))
            live = await applier.apply(wish)
            assert isinstance(live, Deployment)
            assert live.spec.revision_history_limit == 10
        assert counted.writes == ["Apply"]


# ------------------------------------------------------------------ memory
@pytest.mark.slow
async def test_an_applier_forgets_children_that_are_deleted() -> None:
    """200 names are applied and deleted by another client: what is remembered is that of the live child."""
    async with cached_world() as cluster:
        applier = Applier(cluster.client, field_owner="me")
        owner = await cluster.uncached.create(config("owner"))
        await applier.apply(web(), owner=owner)
        for number in range(200):
            child = desired(copy.deepcopy(DEPLOYMENT))
            child.metadata.name = f"child-{number}"
            live = await applier.apply(child, owner=owner)
            await cluster.uncached.delete(live)
        await asyncio.sleep(1)
        memory = applier.memory
        assert [len(part) for part in (memory.records, memory.owned_fields, memory.foreign)] == [1, 1, 0]
        assert memory.records.weight == next(iter(memory.records.values())).weight()


async def test_an_applier_without_a_cache_forgets_the_oldest_children() -> None:
    """Without a cache no deletion is seen: the number of children bounds the memory."""
    async with counted_client() as counted:
        applier = Applier(counted.uncached, field_owner="me", size=10)
        for number in range(30):
            await applier.apply(config(f"child-{number}", x="1"))
        assert [key.name for _, key in applier.memory.records] == [f"child-{number}" for number in range(20, 30)]
        assert len(applier.memory.owned_fields) == 10


async def test_an_applier_does_not_keep_an_informer_running() -> None:
    """The informer of a kind stops with its last handler, also after children of that kind were applied."""
    async with cached_world() as cluster:
        cache = cluster.cache
        cached = await cache.informer_for(ConfigMap, pin=False)
        registration = cached.add_handler(lambda _: None)
        applier = Applier(cluster.client, field_owner="me")
        await applier.apply(config(x="1"))
        assert cached.used
        registration.remove()
        await cache.release(cached)
        assert cached not in cache.kinds()


async def test_equal_parts_of_owned_fields_are_shared() -> None:
    """Two children that differ in their owner reference share the fields of their specs."""
    async with counted_client() as counted:
        applier = Applier(counted.client, field_owner="me")
        for name in ("a", "b"):
            child = desired(copy.deepcopy(DEPLOYMENT))
            child.metadata.name = name
            await applier.apply(child, owner=await owner_of(counted, f"owner-{name}"))
        first, second = (record.owned for record in applier.memory.records.values())
        assert first != second
        assert first.children["f:spec"] is second.children["f:spec"]
