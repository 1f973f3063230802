"""Object sets: what is desired exists, what was desired does not, and foreign objects stay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from opsdk import Client, ObjectKey, ObjectMeta, Unstructured
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Namespace, Secret, Service
from opsdk.api.rbac.v1 import ClusterRole
from opsdk.apimachinery.object import to_tree
from opsdk.children.set_identity import APPLIED, HASH, PRUNE, SetOwner
from opsdk.children.three_way import applied_object
from opsdk.client.patch import merge_patch
from opsdk.errors import AlreadyOwnedError, InvalidError, TerminatingError, UsageError
from opsdk.lifecycle.object_set import ObjectSet, find_owner, purge_orphan
from opsdk.lifecycle.set_options import ObjectSetOptions, SetMode, SetPlan

MODES = list(SetMode)


def config(name: str, namespace: str = "default", **data: str) -> ConfigMap:
    """A desired ConfigMap."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


def object_set(world: Any, *kinds: Any, owner: Any = None, set_id: str = "parts", **options: Any) -> ObjectSet:
    """A set over the running cluster."""
    cluster = world.cluster
    settings = ObjectSetOptions(**options)
    return ObjectSet(
        cluster.client, cluster.applier(), set_id=set_id, owner=owner, kinds=kinds or [ConfigMap], options=settings
    )


async def names(world: Any, namespace: str = "default") -> list[str]:
    """The names of the ConfigMaps of sets."""
    return sorted(m.metadata.name for m in await world.user.list(ConfigMap, namespace=namespace, label_selector=HASH))


def brief(plan: SetPlan) -> list[list[str]]:
    """The names of a plan."""
    return [[write.key.name for write in part] for part in (plan.create, plan.update, plan.delete)]


@pytest.mark.parametrize("mode", MODES)
async def test_the_difference_of_two_sets(world: Any, mode: SetMode) -> None:
    """Wrangler apply: {a,b} -> {b,c} creates c, deletes a, and writes nothing to b; the plan says so before."""
    parts = object_set(world, mode=mode)
    assert brief(await parts.apply([config("a"), config("b", x="1")])) == [["a", "b"], [], []]
    before = await world.user.get(ConfigMap, "default/b")
    desired = [config("b", x="1"), config("c")]
    async with world.env.no_writes():
        plan = await parts.plan(desired)
    assert brief(plan) == [["c"], [], ["a"]]
    assert str(plan) == "ConfigMap default/c: created\nConfigMap default/a: deleted, it is no longer desired"
    assert await parts.apply(desired) == plan
    assert await names(world) == ["b", "c"]
    assert await world.user.get(ConfigMap, "default/b") == before
    async with world.env.no_writes():
        assert not await parts.apply(desired)
    assert brief(await parts.apply([config("b", x="2"), config("c")])) == [[], ["b"], []]
    assert brief(await parts.purge()) == [[], [], ["b", "c"]]


@pytest.mark.parametrize("mode", MODES)
async def test_foreign_objects_stay(world: Any, mode: SetMode) -> None:
    """Objects without marks, of other sets, with copied marks and with the prune label are not deleted."""
    parts = object_set(world, mode=mode)
    other = object_set(world, set_id="other", mode=mode)
    await parts.apply([config("a"), config("kept")])
    await other.apply([config("b")])
    copy = await world.user.get(ConfigMap, "default/a")
    annotations = {name: text for name, text in copy.metadata.annotations.items() if name != APPLIED}
    meta = ObjectMeta(name="copy", namespace="default", labels=copy.metadata.labels, annotations=annotations)
    await world.user.create(ConfigMap(metadata=meta))
    await world.user.create(config("foreign"))
    remaining = await world.user.get(ConfigMap, "default/kept")
    await world.user.patch(remaining, merge_patch({"metadata": {"labels": {PRUNE: "false"}}}))
    await world.until(lambda: _equal(_cached_label(world, "kept"), "false"))
    assert brief(await parts.purge()) == [[], [], ["a"]]
    assert await names(world) == ["b", "copy", "kept"]
    with pytest.raises(AlreadyOwnedError, match="another object set, so parts cannot adopt it"):
        await parts.apply([config("b")])


async def _cached_label(world: Any, name: str) -> str:
    cached = await world.cluster.client.get(ConfigMap, f"default/{name}")
    return str(cached.metadata.labels.get(PRUNE))


async def _equal(actual: Awaitable[Any], expected: Any) -> bool:
    return bool(await actual == expected)


@pytest.mark.parametrize("mode", MODES)
async def test_a_set_that_wrangler_wrote(world: Any, mode: SetMode) -> None:
    """Takeover: nothing is deleted and created; fields that only wrangler's record has go; later removals work."""
    owner = SetOwner.of(await world.config("owner"))
    parts = object_set(world, owner=owner, mode=mode)
    for name in ("a", "b"):
        old = config(name, x="1", y="1")
        old.metadata.labels[HASH], old.metadata.annotations = parts.identity.hash, parts.identity.annotations
        record = applied_object(to_tree(old))["metadata"]["annotations"][APPLIED]
        old.metadata.annotations[APPLIED] = record
        await world.user.create(old, field_owner="rancher")
    before = await world.user.get(ConfigMap, "default/a")
    await world.user.patch(before, merge_patch({"data": {"foreign": "1"}}), field_owner="user")
    await world.until(lambda: _equal(_cached_data(world), {"x": "1", "y": "1", "foreign": "1"}))
    assert brief(await parts.apply([config("a", x="1")])) == [[], ["a"], ["b"]]
    after = await world.user.get(ConfigMap, "default/a")
    assert after.metadata.uid == before.metadata.uid
    assert after.data == {"x": "1", "foreign": "1"}
    assert (APPLIED in after.metadata.annotations) is (mode is SetMode.THREE_WAY_MERGE)
    async with world.env.no_writes():
        assert not await parts.apply([config("a", x="1")])
    await parts.apply([config("a", z="1")])
    assert (await world.user.get(ConfigMap, "default/a")).data == {"z": "1", "foreign": "1"}


async def _cached_data(world: Any) -> dict[str, str]:
    data: dict[str, str] = (await world.cluster.client.get(ConfigMap, "default/a")).data
    return data


@pytest.mark.parametrize("mode", MODES)
async def test_owner_references(world: Any, mode: SetMode) -> None:
    """WithSetOwnerReference: objects in the owner's namespace get a reference, others do not; all are pruned."""
    await world.user.create(Namespace(metadata=ObjectMeta(name="far")))
    owner = await world.config("owner")
    parts = object_set(world, ConfigMap, ClusterRole, owner=owner, set_owner_reference=True, mode=mode)
    near, far, role = config("near", ""), config("far", "far"), ClusterRole(metadata=ObjectMeta(name="role"))
    await parts.apply([near, far, role])
    assert near.metadata.namespace == ""
    stored = await world.user.get(ConfigMap, "default/near")
    assert [reference.uid for reference in stored.metadata.owner_references] == [owner.metadata.uid]
    assert (await world.user.get(ConfigMap, "far/far")).metadata.owner_references == []
    assert (await world.user.get(ClusterRole, "role")).metadata.owner_references == []
    async with world.env.no_writes():
        assert not await parts.apply([near, far, role])
    assert len((await parts.purge()).delete) == 3


async def test_kinds_that_are_not_deleted(world: Any) -> None:
    """WithNoDelete: objects of these kinds stay when they are left out."""
    parts = object_set(world, ConfigMap, Secret, no_delete=[Secret])
    await parts.apply([config("a"), Secret(metadata=ObjectMeta(name="s", namespace="default"))])
    assert brief(await parts.purge()) == [[], [], ["a"]]


@pytest.mark.parametrize("mode", MODES)
async def test_immutable_objects_are_replaced(world: Any, mode: SetMode) -> None:
    """WithReconciler, defaults: an immutable field that changes replaces the object; other errors stay errors."""
    parts = object_set(world, Secret, Service, Deployment, mode=mode)

    def secret(kind: str) -> Secret:
        return Secret(metadata=ObjectMeta(name="s", namespace="default"), type=kind)

    def deployment(app: str) -> Any:
        labels = {"app": app}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        meta = {"name": "d", "namespace": "default"}
        return Unstructured.from_tree({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})

    await parts.apply([secret("demo.dev/a"), deployment("a")])
    before = await world.user.get(Secret, "default/s")
    await parts.apply([secret("demo.dev/b"), deployment("b")])
    after = await world.user.get(Secret, "default/s")
    assert (after.type, after.metadata.uid == before.metadata.uid) == ("demo.dev/b", False)
    assert (await world.user.get(Deployment, "default/d")).spec.selector.match_labels == {"app": "b"}
    with pytest.raises(InvalidError):
        await object_set(world, Secret, mode=mode, replace_immutable=frozenset()).apply([secret("demo.dev/c")])
    held = await world.user.get(Secret, "default/s")
    await world.user.patch(held, merge_patch({"metadata": {"finalizers": ["demo.dev/hold"]}}))
    await world.until(lambda: _equal(_cached_finalizers(world), ["demo.dev/hold"]))
    with pytest.raises(TerminatingError, match="created again after the deletion"):
        await parts.apply([secret("demo.dev/c"), deployment("b")])


async def _cached_finalizers(world: Any) -> list[str]:
    finalizers: list[str] = (await world.cluster.client.get(Secret, "default/s")).metadata.finalizers
    return finalizers


async def test_reconcilers_patchers_and_injectors(world: Any) -> None:
    """WithReconciler, WithPatcher, WithInjector: user functions decide about updates, and change what is desired."""
    calls: list[str] = []

    async def reconcile(client: Client, live: Any, desired: Any) -> bool:
        calls.append(f"reconcile {live.data['x']} -> {desired.data['x']}")
        return bool(desired.data["x"] == "skip")

    async def patch(client: Client, live: Any, desired: Any) -> None:
        calls.append(f"patch {desired.data['x']}")

    def inject(objects: Any) -> list[Any]:
        return [*objects, config("injected")]

    parts = object_set(world, reconcilers={ConfigMap: reconcile}, patchers={ConfigMap: patch}, injectors=[inject])
    assert brief(await parts.apply([config("a", x="1")])) == [["a", "injected"], [], []]
    assert brief(await parts.apply([config("a", x="skip")])) == [[], ["a"], []]
    assert brief(await parts.apply([config("a", x="2")])) == [[], ["a"], []]
    assert calls == ["reconcile 1 -> skip", "reconcile 1 -> 2", "patch 2"]


@pytest.mark.parametrize(
    ("objects", "options", "text"),
    [
        ([Secret(metadata=ObjectMeta(name="s", namespace="default"))], {}, "add it to kinds, or set dynamic_lookup"),
        ([ClusterRole(metadata=ObjectMeta(name="r"))], {"restrict_cluster_scoped": True}, "restrict_cluster_scoped"),
        ([config("a"), config("a")], {}, "occurs twice in object set"),
    ],
)
async def test_what_the_options_exclude(world: Any, objects: Any, options: Any, text: str) -> None:
    """WithStrictCaching, WithRestrictClusterScoped: an excluded object is an error before any write."""
    parts = object_set(world, ConfigMap, ClusterRole, **options)
    async with world.env.no_writes():
        with pytest.raises(UsageError, match=text):
            await parts.apply([config("first"), *objects])


async def test_kinds_that_are_looked_up(world: Any) -> None:
    """WithDynamicLookup: kinds are recorded on the owner as an ApplySet, and pruned by another process."""
    owner = await world.config("owner")

    def parts() -> ObjectSet:
        cluster, settings = world.cluster, ObjectSetOptions(dynamic_lookup=True, apply_set=True)
        return ObjectSet(cluster.client, cluster.applier(), set_id="parts", owner=owner, options=settings)

    await world.user.create(Namespace(metadata=ObjectMeta(name="far")))
    await parts().apply([config("a", "far"), Secret(metadata=ObjectMeta(name="s", namespace="default"))])
    parent = (await world.user.get(ConfigMap, "default/owner")).metadata
    assert parent.annotations["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap,Secret"
    assert parent.annotations["applyset.kubernetes.io/additional-namespaces"] == "far"
    member = await world.user.get(ConfigMap, "far/a")
    assert member.metadata.labels["applyset.kubernetes.io/part-of"] == parent.labels["applyset.kubernetes.io/id"]
    assert brief(await parts().apply([config("a", "far")])) == [[], [], ["s"]]
    assert brief(await parts().purge()) == [[], [], ["a"]]
    parent = (await world.user.get(ConfigMap, "default/owner")).metadata
    assert parent.annotations["applyset.kubernetes.io/contains-group-kinds"] == ""
    async with world.env.no_writes():
        await parts().purge()
    with pytest.raises(AlreadyOwnedError, match="already the parent of an ApplySet"):
        await object_set(world, owner=owner, set_id="second", apply_set=True).apply([config("b")])


async def test_the_rate_of_writes(world: Any) -> None:
    """WithRateLimiting: writes beyond the burst wait."""
    parts = object_set(world, qps=0.5, burst=1)
    start = world.now()
    await parts.apply([config("a"), config("b"), config("c")])
    assert world.now() - start >= 4
    start = world.now()
    await parts.apply([config("a"), config("b"), config("c")])
    assert world.now() - start < 1


async def test_owners_of_sets(world: Any) -> None:
    """FindOwner, PurgeOrphan: an object goes only if the owner of its set is gone."""
    owner = await world.config("owner")
    await object_set(world, owner=owner).apply([config("a")])
    await object_set(world, set_id="none").apply([config("b")])
    a, b = [await world.user.get(ConfigMap, f"default/{name}") for name in "ab"]
    live = await find_owner(world.user, a)
    assert live is not None
    assert live.metadata.uid == owner.metadata.uid
    assert await find_owner(world.user, b) is None
    assert not await purge_orphan(world.user, a)
    await world.user.delete(owner)
    assert await purge_orphan(world.user, a)
    assert not await purge_orphan(world.user, b)
    assert await names(world) == ["b"]


@pytest.mark.parametrize("mode", MODES)
async def test_an_error_stops_deletions_only(world: Any, mode: SetMode) -> None:
    """An object that the server rejects: the others are applied, nothing is deleted, and the error is raised."""
    parts = object_set(world, mode=mode)
    await parts.apply([config("a")])
    with pytest.raises(InvalidError) as raised:
        await parts.apply([config("B!"), config("c"), config("D!")])
    assert "D!" in raised.value.__notes__[0]
    assert await names(world) == ["a", "c"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kinds": [ConfigMap]}, "needs a set_id or an owner"),
        ({"set_id": "a"}, "has no kinds"),
        ({"set_id": "a", "kinds": [ConfigMap], "options": ObjectSetOptions(apply_set=True)}, "need an owner"),
        (
            {
                "owner": SetOwner(ConfigMap.gvk, ObjectKey("a", "b")),
                "options": ObjectSetOptions(set_owner_reference=True),
            },
            "needs the owner as an object",
        ),
    ],
)
async def test_sets_that_cannot_be_pruned_are_refused(world: Any, arguments: Any, text: str) -> None:
    """Bad input: without identity, kinds or owner the set would lose its objects."""
    make: Callable[..., ObjectSet] = ObjectSet
    with pytest.raises(UsageError, match=text):
        make(world.cluster.client, world.cluster.applier(), **arguments)
