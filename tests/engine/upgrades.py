"""A small operator in two versions: the state that the first one leaves, and the plan for the second one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

import envtest
from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator, Unstructured
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import to_dict
from opsdk.cluster.cluster import Cluster
from opsdk.engine.plan import Plan
from opsdk.engine.planning import make_plan
from opsdk.engine.run import Change, OperatorRun
from opsdk.engine.snapshot import ClusterSnapshot, Unseen, read_snapshot, write_snapshot
from opsdk.engine.snapshot_reader import take_snapshot
from opsdk.engine.webhooks import CLIENT_CONFIG, serve_in_process
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.recipes.definitions import apply_definitions
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.loop import VirtualLoop
from opsdk.testing.running import running

GVK = GroupVersionKind("apps.example.com", "v1", "App")
ALL = RuleSet([Permission("*", "*", "*")])
_REST = 120.0

Children = Callable[[str], Sequence[JsonObject]]
"""The children of an App by its name."""
Hook = Callable[[Any, Context], Awaitable[None]]


class AppSpec(Model):
    """The spec of an App."""

    image: str = "app:1"
    backup: str = ""


class AppStatus(Model):
    """The status of an App."""

    text: str = ""
    checks: int = 0


class App(Object[AppSpec, AppStatus]):
    """What the operator reconciles."""

    gvk = GVK


KINDS = [
    unstructured_kind(api_version, kind)
    for api_version, kind in (
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("v1", "ConfigMap"),
        ("v1", "Service"),
        ("v1", "Secret"),
        ("v1", "PersistentVolumeClaim"),
        ("batch/v1", "Job"),
        ("policy/v1", "PodDisruptionBudget"),
    )
]


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version of the operator.

    Attributes:
        children: that it applies.
        kind: that it reconciles.
        name: of the operator.
        prunes: delete the children that it no longer applies.
        before: called before the children are applied.
        after: called after the children were applied.
        finalizers: with their functions.
        rules: its permissions; None for all.
        customize: changes the operator.
    """

    children: Children = lambda _: ()
    kind: type[Any] = App
    name: str = "apps"
    prunes: bool = True
    before: Hook | None = None
    after: Hook | None = None
    finalizers: dict[str, Hook] = field(default_factory=dict)
    rules: RuleSet = ALL
    customize: Callable[[Operator], object] = lambda _: None

    def operator(self) -> Operator:
        """Return a new operator."""
        operator = Operator(self.name)

        async def reconcile(app: Any, ctx: Context) -> None:
            if self.before is not None:
                await self.before(app, ctx)
            desired = [Unstructured.from_tree(tree) for tree in self.children(app.metadata.name)]
            await ctx.apply_all(desired, prune=KINDS if self.prunes else None)
            if self.after is not None:
                await self.after(app, ctx)

        # The form of a reconciler follows from the annotation of its argument.
        reconcile.__annotations__["app"] = self.kind
        declare = operator.reconciler(self.kind, name="apps", owns=KINDS, finalizers=self.finalizers)
        declare(reconcile)
        self.customize(operator)
        return operator


def state_of(version: Version, *, apps: int = 1, more: Sequence[JsonObject] = ()) -> ClusterSnapshot:
    """Return the cluster after a version has reconciled some Apps."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_state(version, apps, more))


async def _state(version: Version, apps: int, more: Sequence[JsonObject]) -> ClusterSnapshot:
    operator = version.operator()
    async with envtest.Environment(controllers="cluster") as env, Cluster(env.config) as cluster:
        client = cluster.uncached
        serve_in_process(operator, env.local_apps)
        await apply_definitions(client, operator.definitions(CLIENT_CONFIG), field_owner="opsdk-deploy")
        for tree in more:
            await client.create(Unstructured.from_tree(tree))
        config = replace(env.config, user_agent=f"{operator.name}/opsdk")
        async with running(operator, config, definitions=False):
            for number in range(apps):
                meta = ObjectMeta(name=f"app-{number}", namespace="default")
                await client.create(version.kind(metadata=meta, spec=AppSpec(backup="daily")))
            await asyncio.sleep(_REST)
        return await take_snapshot(env.config)


def plan_for(version: Version, snapshot: ClusterSnapshot, *, changes: Sequence[Change] = ()) -> Plan:
    """Return the plan of a version for a cluster, with changes of the user."""
    operator = version.operator()
    run = OperatorRun(
        snapshot=snapshot,
        operator=lambda: operator,
        environment=lambda each: envtest.Environment(controllers="cluster", snapshot=each),
        rules=version.rules,
        changes=changes,
    )
    return make_plan(run.execute(), operator)


async def read_as(
    reader: RuleSet, rules: RuleSet, *, cluster: ClusterSnapshot | None = None, more: Sequence[JsonObject] = ()
) -> ClusterSnapshot:
    """Return what an account with the permissions `reader` reads of a cluster for an operator with `rules`."""
    async with envtest.Environment(snapshot=cluster) as env, Cluster(env.config) as admin:
        for tree in more:
            await admin.uncached.create(Unstructured.from_tree(tree))
        for obj in manifests(reader, RbacNames(name="reader")):
            await admin.uncached.create(Unstructured.from_tree(to_dict(obj)))
        user = env.add_user("system:serviceaccount:default:reader")
        return read_snapshot(write_snapshot(await take_snapshot(user.config, rules=rules)))


def without_kinds(snapshot: ClusterSnapshot, resources: Collection[str]) -> ClusterSnapshot:
    """Return the snapshot of an account that may not list some resources, such as ``deployments.apps``."""
    kinds = [kind for kind in snapshot.kinds if kind.resource not in resources]
    names = {kind.resource: kind.kind for kind in snapshot.kinds}
    read = {(kind.api_version, kind.kind) for kind in kinds}
    return replace(
        snapshot,
        kinds=kinds,
        unseen=[Unseen(what=each, reason="forbidden", kind=names.get(each, "")) for each in sorted(resources)],
        objects=[obj for obj in snapshot.objects if (obj["apiVersion"], obj["kind"]) in read],
    )


# ---------------------------------------------------------------- children
def workload(kind: str, name: str, **changes: Any) -> JsonObject:
    """Return a Deployment, StatefulSet or DaemonSet with two Pods, and changes of its template and spec."""
    labels = changes.pop("selector", {"app": name})
    template: JsonObject = {
        "metadata": {"labels": labels, "annotations": changes.pop("annotations", {})},
        "spec": {"containers": [{"name": "app", "image": changes.pop("image", "app:1")}]},
    }
    spec: JsonObject = {"selector": {"matchLabels": labels}, "template": template}
    if kind != "DaemonSet":
        spec["replicas"] = changes.pop("replicas", 2)
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": changes.pop("labels", {})},
        "spec": {**spec, **changes},
    }


def config(name: str, **data: str) -> JsonObject:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **data: str) -> JsonObject:
    """Return a Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def service(name: str, **changes: Any) -> JsonObject:
    """Return a Service of the Pods with the label ``app``."""
    spec = {"selector": {"app": name}, "ports": [{"port": 80}], **changes}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def namespaced_objects(namespace: str) -> list[JsonObject]:
    """Return a namespace, and a ConfigMap in it."""
    entry = config("a", a="1")
    entry["metadata"]["namespace"] = namespace
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, entry]


def claim(name: str, size: str = "1Gi") -> JsonObject:
    """Return a claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
