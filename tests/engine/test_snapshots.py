"""Snapshots of clusters: the file, what is in it, and what a server makes of it."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import msgspec
import pytest

import envtest
from opsdk import ObjectMeta, OwnerReference, Unstructured
from opsdk.api.core.v1 import ConfigMap, Secret, Service, ServicePort, ServiceSpec
from opsdk.cluster.cluster import Cluster
from opsdk.engine.isolation import isolate
from opsdk.engine.snapshot import ClusterSnapshot, SnapshotError, SnapshotKind, Unseen, read_snapshot, write_snapshot
from opsdk.engine.snapshot_kinds import UnreadKinds, blind_spots
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.engine.writes import Ref
from opsdk.errors import ConfigError
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.structured_merge.value import JsonObject
from tests.engine.upgrades import namespaced_objects, read_as

_KINDS = (
    SnapshotKind(group="", version="v1", kind="ConfigMap", plural="configmaps", count=2),
    SnapshotKind(group="future.k8s.io", version="v1", kind="Gadget", plural="gadgets", count=1),
)


def _object(name: str, kind: str = "ConfigMap", api_version: str = "v1", **more: object) -> JsonObject:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "41"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


SNAPSHOT = ClusterSnapshot(
    taken_at="2026-11-24T10:00:00Z",
    server_version="v1.99.0",
    resource_version="42",
    kinds=_KINDS,
    objects=[_object("a", newField=1), _object("b"), _object("g", "Gadget", "future.k8s.io/v1", spec={"x": [1]})],
)


@pytest.mark.parametrize("compress", [False, True])
def test_each_cut_of_a_file_is_an_error(compress: bool) -> None:
    """A file is whole, or it is refused. gzip's own end may be missing: the last line has a digest."""
    data = write_snapshot(SNAPSHOT, compress=compress)
    assert read_snapshot(data) == SNAPSHOT
    assert write_snapshot(read_snapshot(data), compress=compress) == data
    for end in range(len(data) - 12 if compress else len(data)):
        with pytest.raises(SnapshotError):
            read_snapshot(data[:end])


def test_a_changed_file_is_refused_unless_a_test_accepts_it() -> None:
    """The digest of the last line covers the header and each object."""
    data = write_snapshot(SNAPSHOT, compress=False)
    changed = data.replace(b'"newField":1', b'"newField":2')
    with pytest.raises(SnapshotError, match="was changed after it was written"):
        read_snapshot(changed)
    assert read_snapshot(changed, edited=True).objects[0]["newField"] == 2
    with pytest.raises(SnapshotError, match="was changed"):
        read_snapshot(data.replace(b"v1.99.0", b"v1.98.0"))


def test_a_later_format_and_other_files_are_refused_with_the_reason() -> None:
    """The message says what to do next."""
    later = write_snapshot(SNAPSHOT, compress=False).replace(b'"formatVersion":1', b'"formatVersion":2')
    with pytest.raises(SnapshotError, match="upgrade opsdk"):
        read_snapshot(later)
    for data in (b"", b"{}\n", b"\x1f\x8bxx", b"kind: Pod\n", gzip.compress(b"[]\n")):
        with pytest.raises(SnapshotError):
            read_snapshot(data)


async def test_secret_values_are_digests_unless_asked_for() -> None:
    """Neither the value nor its base64 form is in the file; equal values have equal digests."""
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        for name in ("one", "two"):
            meta = ObjectMeta(name=name, namespace="default")
            await cluster.uncached.create(Secret(metadata=meta, data={"password": b"hunter2"}))
        redacted = await take_snapshot(env.config)
        whole = await take_snapshot(env.config, secret_values=True)
    data = write_snapshot(redacted, compress=False)
    assert b"hunter2" not in data
    assert b"aHVudGVyMg==" not in data
    digests = {obj["data"]["password"] for obj in redacted.objects if obj["kind"] == "Secret"}
    assert len(digests) == 1
    assert b"aHVudGVyMg==" in write_snapshot(whole, compress=False)


async def test_a_user_without_permissions_gets_a_snapshot_that_names_what_is_missing() -> None:
    """Reads that are forbidden are named, with the server's reason; nothing but get and list is sent."""
    async with envtest.Environment() as env:
        bob = env.add_user("bob")
        rules = RuleSet([Permission("list", "", "configmaps")])
        taken = await take_snapshot(bob.config, rules=rules)
        verbs = {entry.info.verb for entry in env.audit if entry.user.name == "bob"}
    assert "configmaps" in {unseen.what for unseen in taken.unseen}
    assert all("bob" in unseen.reason for unseen in taken.unseen)
    assert verbs <= {"get", "list"}


def test_a_kind_is_read_in_the_namespaces_of_the_account() -> None:
    """The operator has two namespaces, and the account may list one of them."""
    operator = RuleSet([Permission("list", "", "configmaps", namespace=name) for name in ("shop", "bank")])
    reader = RuleSet([Permission("list", "", "configmaps", namespace="shop")])
    more = [*namespaced_objects("shop"), *namespaced_objects("bank")]
    taken = asyncio.run(read_as(reader, operator, more=more))
    [refused] = [each for each in taken.unseen if each.what == "configmaps"]
    assert refused.besides == ("shop",)
    assert {obj["metadata"]["namespace"] for obj in taken.objects} == {"shop"}
    unread = UnreadKinds(taken)
    assert unread.reason(Ref("", "configmaps", "shop", "a")) is None
    assert unread.reason(Ref("", "configmaps", "bank", "a")) == refused
    assert blind_spots(taken, operator) == [refused]
    assert blind_spots(taken, reader) == []


def test_a_group_version_that_is_down_hides_the_writes_to_its_kinds() -> None:
    """Its discovery failed, so no kind of it is named."""
    down = Unseen(what="metrics.example.com/v1beta1", reason="discovery failed")
    snapshot = msgspec.structs.replace(SNAPSHOT, unseen=[down])
    assert UnreadKinds(snapshot).reason(Ref("metrics.example.com", "samples", "default", "a")) == down
    assert UnreadKinds(snapshot).reason(Ref("example.com", "samples", "default", "a")) is None
    assert blind_spots(snapshot, RuleSet([Permission("list", "metrics.example.com", "samples")])) == [down]
    assert blind_spots(snapshot, RuleSet([Permission("list", "example.com", "samples")])) == []


def test_the_file_has_the_kinds_that_were_left_out() -> None:
    """A user's file may have an object of such a kind. The cluster may have it too."""
    rules = RuleSet([Permission("list", "", "configmaps")])
    taken = asyncio.run(read_as(RuleSet.everything(), rules))
    assert "daemonsets.apps" in taken.left_out
    reason = UnreadKinds(taken).reason(Ref("apps", "daemonsets", "default", "a"))
    assert reason is not None
    assert "--all" in reason.reason


async def test_the_owners_of_objects_are_read_too() -> None:
    """The operator uses ConfigMaps. One is owned by a Secret, which is owned by a Service: both kinds are read."""

    def owned_by(owner: Service | Secret) -> list[OwnerReference]:
        api_version, kind = owner.gvk.api_version, owner.gvk.kind
        name, uid = owner.metadata.name, owner.metadata.uid
        return [OwnerReference(api_version=api_version, kind=kind, name=name, uid=uid)]

    rules = RuleSet([Permission("list", "", "configmaps")])
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        meta = {"name": "a", "namespace": "default"}
        spec = ServiceSpec(ports=[ServicePort(port=80)])
        service = await cluster.uncached.create(Service(metadata=ObjectMeta(**meta), spec=spec))
        secret = await cluster.uncached.create(Secret(metadata=ObjectMeta(**meta, owner_references=owned_by(service))))
        alone = {kind.kind for kind in (await take_snapshot(env.config, rules=rules)).kinds}
        await cluster.uncached.create(ConfigMap(metadata=ObjectMeta(**meta, owner_references=owned_by(secret))))
        taken = await take_snapshot(env.config, rules=rules)
    assert {kind.kind for kind in taken.kinds} - alone == {"Secret", "Service"}
    assert isolate(taken).unseen == taken.unseen


@pytest.mark.parametrize("name", ["deployments.apps", "deployment.apps", "deploy", "Deployment.apps", "deployments"])
async def test_kinds_with_a_name_are_read_although_the_operator_does_not_use_them(name: str) -> None:
    """A change of the user may concern any kind, by any name that kubectl takes."""
    rules = RuleSet([Permission("list", "", "configmaps")])
    async with envtest.Environment() as env:
        taken = await take_snapshot(env.config, rules=rules, names=[name])
    assert {"Deployment", "ReplicaSet", "ConfigMap"} <= {kind.kind for kind in taken.kinds}


async def test_a_server_keeps_the_objects_as_they_are() -> None:
    """Resource versions and unknown fields stay; a kind of a later version is served without a schema."""
    async with envtest.Environment(snapshot=SNAPSHOT) as env, Cluster(env.config) as cluster:
        config_map = await cluster.uncached.get(ConfigMap, "a", namespace="default")
        assert (config_map.metadata.uid, config_map.metadata.resource_version) == ("uid-a", "41")
        taken = await take_snapshot(env.config)
    objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in taken.objects}
    assert objects["ConfigMap", "a"] == SNAPSHOT.objects[0]
    assert objects["Gadget", "g"]["spec"] == {"x": [1]}


async def test_a_snapshot_of_a_loaded_snapshot_is_the_same() -> None:
    """Loading and reading again changes no object of a cluster with workloads."""
    tree = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
            },
        },
    }
    async with envtest.Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
        await cluster.uncached.create(Unstructured.from_tree(tree))
        await asyncio.sleep(60)
        first = await take_snapshot(env.config)
    async with envtest.Environment(controllers="cluster", snapshot=first) as env:
        await asyncio.sleep(3600)
        second = await take_snapshot(env.config)
    # The certificate authority is another one.
    assert [obj for obj in second.objects if obj not in first.objects and obj["kind"] != "ConfigMap"] == []
    assert len(second.objects) == len(first.objects)


def test_isolating_twice_changes_nothing() -> None:
    """Webhooks go, an owner that was not read is dropped, the nodes of Pods are made; each is named once."""
    pod = _object("p", "Pod", spec={"nodeName": "worker"})
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "unread"}]
    hook = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    hook |= {"metadata": {"name": "h"}, "webhooks": [{"name": "inject.example.com"}]}
    isolated = isolate(msgspec.structs.replace(SNAPSHOT, objects=[pod, hook]))
    assert [obj["kind"] for obj in isolated.objects] == ["Pod", "Node"]
    assert isolated.objects[0]["metadata"]["ownerReferences"] == []
    assert [unseen.what for unseen in isolated.unseen] == [
        "webhook inject.example.com",
        "ReplicaSet r, the owner of Pod default/p",
        "nodes",
    ]
    assert isolate(isolated) == isolated


def test_a_snapshot_and_another_storage_exclude_each_other() -> None:
    """Both have the objects to start with."""
    with pytest.raises(ConfigError, match="pass one of them"):
        envtest.Environment(snapshot=SNAPSHOT, data_dir=Path("nowhere"))
