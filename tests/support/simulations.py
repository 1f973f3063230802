"""Operators with their workloads, for simulations: websites, finalizers, a pair of replicas, pauses of tenants."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from application_simulation import APPLICATIONS
from box_simulation import BOXES
from thread_simulation import THREADS

import envtest
from opsdk import Context, MergeFrom, ObjectKey, ObjectMeta, Operator, OperatorOptions, Request, Result, crd_for
from opsdk.aio.clock import utc_now
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Secret, Service
from opsdk.apimachinery.object import deep_copy
from opsdk.client.patch import merge_patch
from opsdk.controller.options import ControllerOptions
from opsdk.controller.pausing import PAUSED_ANNOTATION, RECONCILE_ANNOTATION, Pause, format_time, read_pause
from opsdk.event.event import AnyEvent
from opsdk.event.predicates import labels_changed
from opsdk.queue.fairness import Fairness
from opsdk.recipes import add_finalizer, is_deleting, remove_finalizer, set_controller_reference
from opsdk.testing.simulate import DEFAULT_FAULTS, Fault, Simulation, World
from website.api import Website, WebsiteSpec
from website.children import config_map
from website.operator import make_operator

NAMESPACE = "default"


# ---------------------------------------------------------------- websites
def _websites() -> Any:
    return envtest.Environment(crds=[crd_for(Website)])


async def make_site(world: World) -> None:
    """Create a website; each has a name of its own, because no garbage collector runs."""
    meta = ObjectMeta(name=f"site-{world.rng.randrange(10**6)}", namespace=NAMESPACE)
    spec = WebsiteSpec(image="nginx:1", replicas=world.rng.randrange(3))
    await world.client.create(Website(metadata=meta, spec=spec))


async def edit_site(world: World) -> None:
    """Change a website's page and number of replicas."""
    sites = [s for s in await world.client.list(Website) if not is_deleting(s)]
    if sites:
        site = world.rng.choice(sites)
        before = deep_copy(site)
        site.spec.content = f"page {world.rng.randrange(1000)}"
        site.spec.replicas = world.rng.randrange(5)
        await world.client.patch(site, MergeFrom(before))


async def delete_site(world: World) -> None:
    """Delete a website."""
    if sites := await world.client.list(Website):
        await world.client.delete(world.rng.choice(list(sites)), missing_ok=True)


async def tamper_with_a_deployment(world: World) -> None:
    """Change a child behind the operator's back."""
    if deployments := await world.client.list(Deployment):
        deployment = world.rng.choice(list(deployments))
        before = deep_copy(deployment)
        deployment.spec.replicas = world.rng.randrange(10, 20)
        await world.client.patch(deployment, MergeFrom(before))


async def tamper_with_a_page(world: World) -> None:
    """Change a child of which the operator manages all data."""
    pages = [c for c in await world.client.list(ConfigMap, namespace=NAMESPACE) if "index.html" in c.data]
    if pages:
        page = world.rng.choice(pages)
        before = deep_copy(page)
        page.data["index.html"] = "defaced"
        await world.client.patch(page, MergeFrom(before))


async def sites_are_served(world: World) -> None:
    """Each website has its children with its content; none waits for its finalizer."""
    sites = {s.metadata.name: s for s in await world.client.list(Website)}
    maps = {c.metadata.name: c for c in await world.client.list(ConfigMap, namespace=NAMESPACE)}
    deployments = {d.metadata.name: d for d in await world.client.list(Deployment)}
    services = {s.metadata.name for s in await world.client.list(Service, namespace=NAMESPACE)}
    for name, site in sites.items():
        assert not is_deleting(site), f"{name} is not let go"
        assert name in maps, f"{name} has no ConfigMap"
        assert maps[name].data == config_map(site).data, f"{name} has another page"
        assert name in deployments, f"{name} has no Deployment"
        assert deployments[name].spec.replicas == site.spec.replicas, f"{name} has another number of replicas"
        assert name in services, f"{name} has no Service"
        assert site.status is not None, f"{name} has no status"
        assert site.status.observed_generation == site.metadata.generation, f"{name} has an old status"
        assert f"directory-{name}" in maps, f"{name} is not in the directory"
    for name in maps:
        assert not name.startswith("directory-") or name.removeprefix("directory-") in sites, f"{name} is left over"


WEBSITES = Simulation(
    operator=make_operator,
    environment=_websites,
    actions=[make_site, edit_site, delete_site, tamper_with_a_deployment, tamper_with_a_page],
    check=sites_are_served,
    children=[ConfigMap, Deployment, Service],
    max_actions=7,
)


# ---------------------------------------------------------------- a family: several children, finalizers
FAMILY_FINALIZER = "example.com/family"
SIZE = "example.com/size"


def make_family_operator() -> Operator:
    """A ConfigMap with the annotation has so many Secrets; its finalizer deletes them."""
    operator = Operator("family", OperatorOptions(controller=ControllerOptions(max_concurrent_reconciles=3)))

    @operator.reconciler(ConfigMap, owns=[Secret])
    async def reconcile(request: Request) -> None:
        client = operator.client
        parent = await client.get_or_none(ConfigMap, request.key)
        if parent is None or SIZE not in parent.metadata.annotations:
            return
        before = deep_copy(parent)
        size = 0 if is_deleting(parent) else int(parent.metadata.annotations[SIZE])
        if size and add_finalizer(parent, FAMILY_FINALIZER):
            await client.patch(parent, MergeFrom(before, optimistic_lock=True))
        names = [f"{request.name}-{number}" for number in range(size)]
        for child in await client.list(Secret, namespace=request.namespace):
            if any(ref.uid == parent.metadata.uid for ref in child.metadata.owner_references):
                if child.metadata.name not in names:
                    await client.delete(child, missing_ok=True)
                else:
                    names.remove(child.metadata.name)
        for name in names:
            meta = ObjectMeta(name=name, namespace=request.namespace)
            await operator.apply(Secret(metadata=meta, string_data={"of": request.name}), owner=parent)
        if is_deleting(parent) and FAMILY_FINALIZER in parent.metadata.finalizers:
            before = deep_copy(parent)
            remove_finalizer(parent, FAMILY_FINALIZER)
            await client.patch(parent, MergeFrom(before, optimistic_lock=True))

    return operator


async def make_parent(world: World) -> None:
    """Create a parent; each has a name of its own, because no garbage collector runs."""
    meta = ObjectMeta(
        name=f"parent-{world.rng.randrange(10**6)}",
        namespace=NAMESPACE,
        annotations={SIZE: str(world.rng.randint(1, 4))},
    )
    await world.client.create(ConfigMap(metadata=meta))


async def list_parents(world: World) -> list[ConfigMap]:
    """Return the parents."""
    return [c for c in await world.client.list(ConfigMap, namespace=NAMESPACE) if SIZE in c.metadata.annotations]


async def resize_parent(world: World) -> None:
    """Change the size of a family."""
    if parents := await list_parents(world):
        parent = world.rng.choice(parents)
        before = deep_copy(parent)
        parent.metadata.annotations[SIZE] = str(world.rng.randint(1, 4))
        await world.client.patch(parent, MergeFrom(before))


async def delete_parent(world: World) -> None:
    """Delete a parent."""
    if parents := await list_parents(world):
        await world.client.delete(world.rng.choice(parents), missing_ok=True)


async def families_are_complete(world: World) -> None:
    """The Secrets are those that the parents want."""
    parents = await list_parents(world)
    assert not any(map(is_deleting, parents)), "a parent waits for its finalizer"
    desired = {f"{p.metadata.name}-{i}" for p in parents for i in range(int(p.metadata.annotations[SIZE]))}
    existing = {s.metadata.name for s in await world.client.list(Secret, namespace=NAMESPACE)}
    assert existing == desired, f"missing {sorted(desired - existing)}, too many {sorted(existing - desired)}"


FAMILIES = Simulation(
    operator=make_family_operator,
    environment=envtest.Environment,
    actions=[make_parent, resize_parent, delete_parent],
    check=families_are_complete,
    children=[Secret],
)


# ---------------------------------------------------------------- two replicas, one leader
def make_elected_operator() -> Operator:
    """Copies the data of each ConfigMap into a Secret of the same name, on one of two replicas."""
    options = OperatorOptions(
        leader_election=True,
        leader_election_namespace=NAMESPACE,
        lease_duration=16,
        renew_deadline=11,
        retry_period=5,
        controller=ControllerOptions(shutdown_timeout=3),
    )
    operator = Operator("copier", options)

    @operator.reconciler(ConfigMap, owns=[Secret])
    async def reconcile(request: Request) -> None:
        source = await operator.client.get_or_none(ConfigMap, request.key)
        if source is None or request.namespace != NAMESPACE or "n" not in source.data:
            return
        meta = ObjectMeta(name=request.name, namespace=request.namespace)
        await operator.apply(Secret(metadata=meta, string_data={"n": source.data["n"]}), owner=source)

    return operator


async def write_source(world: World) -> None:
    """Create or change a source."""
    name = f"source-{world.rng.randrange(3)}"
    source = await world.client.get_or_none(ConfigMap, name, namespace=NAMESPACE)
    data = {"n": str(world.rng.randrange(1000))}
    if source is None:
        await world.client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data))
        return
    before = deep_copy(source)
    source.data = data
    await world.client.patch(source, MergeFrom(before))


async def sources_are_copied(world: World) -> None:
    """Each source has a Secret with its data."""
    secrets = {s.metadata.name: s.data for s in await world.client.list(Secret, namespace=NAMESPACE)}
    for source in await world.client.list(ConfigMap, namespace=NAMESPACE):
        if "n" in source.data:
            copied = secrets.get(source.metadata.name, {}).get("n", b"")
            assert copied == source.data["n"].encode(), f"{source.metadata.name} is not copied"


REPLICAS = Simulation(
    operator=make_elected_operator,
    environment=envtest.Environment,
    actions=[write_source],
    check=sources_are_copied,
    children=[Secret],
    replicas=2,
    max_seconds=40.0,
)


# ---------------------------------------------------------------- operators that few bugs of an SDK leave alone
def make_single_operator() -> Operator:
    """Creates one Secret with a generated name for each ConfigMap, and never deletes one."""
    operator = Operator("single")

    @operator.reconciler(ConfigMap, owns=[Secret])
    async def reconcile(request: Request) -> Result | None:
        parent = await operator.client.get_or_none(ConfigMap, request.key)
        if parent is None or SIZE not in parent.metadata.annotations:
            return None
        uids = [o.uid for s in await operator.client.list(Secret) for o in s.metadata.owner_references]
        if parent.metadata.uid not in uids:
            meta = ObjectMeta(generate_name=f"{request.name}-", namespace=request.namespace)
            secret = Secret(metadata=meta)
            set_controller_reference(parent, secret)
            await operator.client.create(secret)
            return Result(requeue_after=0.5)
        return None

    return operator


async def parents_have_one_child(world: World) -> None:
    """Not two, although the cache may be old."""
    parents = {p.metadata.uid: p.metadata.name for p in await list_parents(world)}
    children = [o.uid for s in await world.client.list(Secret) for o in s.metadata.owner_references]
    for uid, name in parents.items():
        assert children.count(uid) == 1, f"{name} has {children.count(uid)} children"


_UNSURE_OF_WRITES = (Fault.LOSE_ANSWERS, Fault.LOSE_ANSWER, Fault.CRASH, Fault.CRASH_AFTER_WRITE, Fault.STOP)

SINGLES = Simulation(
    operator=make_single_operator,
    environment=envtest.Environment,
    actions=[make_parent, resize_parent],
    check=parents_have_one_child,
    # With these, even a correct operator may create a second child: it cannot know that the first one exists.
    faults=[f for f in DEFAULT_FAULTS if f not in _UNSURE_OF_WRITES],
)


def make_doubtful_operator() -> Operator:
    """The family operator, with a predicate that raises for every second state of an object."""

    def doubt(event: AnyEvent) -> bool:
        if int(event.view.resource_version) % 2:
            raise ValueError("this predicate fails at times")
        return True

    operator = make_family_operator()
    controller_for = operator.controller_for
    operator.controller_for = lambda *a, **k: controller_for(*a, **k).with_event_filter(doubt)  # type: ignore[method-assign]
    return operator


DOUBTFUL = replace(FAMILIES, operator=make_doubtful_operator)

# ---------------------------------------------------------------- pauses, with fairness between namespaces
TENANTS = ("default", "kube-public", "kube-node-lease")
PAUSES_FINALIZER = "example.com/copy"
PAUSES_CONFIG_MAP = "copier-pauses"
REACHED: list[str] = []
"""Objects that were reconciled although the annotation of their own cached state pauses them."""


def make_pausing_operator() -> Operator:
    """Copies each ConfigMap into a Secret of its name; its finalizer deletes the Secret."""
    options = ControllerOptions(max_concurrent_reconciles=2, fairness=Fairness(weights={"kube-public": 3}))
    operator = Operator("copier", OperatorOptions(controller=options, pause_config_map=PAUSES_CONFIG_MAP))

    async def delete_copy(source: ConfigMap, ctx: Context) -> None:
        await ctx.client.delete(Secret, f"{source.metadata.namespace}/{source.metadata.name}", missing_ok=True)

    @operator.reconciler(
        ConfigMap, owns=[Secret], finalizers={PAUSES_FINALIZER: delete_copy}, predicates=[labels_changed()]
    )
    async def reconcile(source: ConfigMap, ctx: Context) -> None:
        if read_pause(source.metadata.annotations, now=utc_now()) is not None:
            REACHED.append(f"{source.metadata.namespace}/{source.metadata.name}")
        if "n" in source.metadata.labels:
            copy = Secret(
                metadata=ObjectMeta(name=source.metadata.name), string_data={"n": source.metadata.labels["n"]}
            )
            await ctx.apply(copy)

    return operator


def _pauses() -> Any:
    REACHED.clear()
    return envtest.Environment()


async def list_sources(world: World) -> list[ConfigMap]:
    """Return the ConfigMaps of the tenants."""
    return [c for c in await world.client.list(ConfigMap) if "n" in c.metadata.labels]


async def write_labelled_source(world: World) -> None:
    """Create a source of a tenant, or change one."""
    key = ObjectKey(world.rng.choice(TENANTS), f"source-{world.rng.randrange(3)}")
    labels = {"n": str(world.rng.randrange(1000))}
    source = await world.client.get_or_none(ConfigMap, key)
    if source is None:
        meta = ObjectMeta(name=key.name, namespace=key.namespace, labels=labels)
        await world.client.create(ConfigMap(metadata=meta))
    elif not is_deleting(source):
        await world.client.patch(source, merge_patch({"metadata": {"labels": labels}}))


async def pause_source(world: World) -> None:
    """Pause a source: without an end, for at most a minute, or by a word that is not understood."""
    until = format_time(utc_now() + timedelta(seconds=world.rng.randrange(60)))
    await _annotate(world, {PAUSED_ANNOTATION: world.rng.choice(["true", "yes", until, until])})


async def resume_source(world: World) -> None:
    """End a pause."""
    await _annotate(world, {PAUSED_ANNOTATION: world.rng.choice([None, "false"])})


async def request_a_reconcile(world: World) -> None:
    """Request a reconcile."""
    await _annotate(world, {RECONCILE_ANNOTATION: str(world.rng.random())})


async def _annotate(world: World, annotations: dict[str, str | None]) -> None:
    if sources := await list_sources(world):
        source = world.rng.choice(sources)
        await world.client.patch(source, merge_patch({"metadata": {"annotations": annotations}}))


async def pause_controller(world: World) -> None:
    """Pause the controller: without an end, or for at most a minute."""
    until = format_time(utc_now() + timedelta(seconds=world.rng.randrange(60)))
    data = {"configmap": world.rng.choice(["true", until, until])}
    meta = ObjectMeta(name=PAUSES_CONFIG_MAP, namespace=NAMESPACE)
    if await world.client.get_or_none(ConfigMap, PAUSES_CONFIG_MAP, namespace=NAMESPACE) is None:
        await world.client.create(ConfigMap(metadata=meta, data=data))
    else:
        await world.client.patch(ConfigMap(metadata=meta), merge_patch({"data": data}))


async def resume_controller(world: World) -> None:
    """End the pause of the controller."""
    meta = ObjectMeta(name=PAUSES_CONFIG_MAP, namespace=NAMESPACE)
    await world.client.delete(ConfigMap(metadata=meta), missing_ok=True)


async def controller_pause(world: World) -> Pause | None:
    """Return the pause of the controller that is in force."""
    config_map = await world.client.get_or_none(ConfigMap, PAUSES_CONFIG_MAP, namespace=NAMESPACE)
    return read_pause({PAUSED_ANNOTATION: config_map.data["configmap"]}, now=utc_now()) if config_map else None


async def delete_source(world: World) -> None:
    """Delete a source, which may be paused."""
    if sources := await list_sources(world):
        await world.client.delete(world.rng.choice(sources), missing_ok=True)


async def unpaused_sources_are_copied(world: World) -> None:
    """Each source that is not paused has a Secret with its data; none waits for its finalizer."""
    if (pause := await controller_pause(world)) is not None:
        assert pause.until is None, "the pause of the controller has not ended yet"
        return
    secrets = {(s.metadata.namespace, s.metadata.name): s.data for s in await world.client.list(Secret)}
    for source in await list_sources(world):
        key = source.metadata.namespace, source.metadata.name
        assert not is_deleting(source), f"{key} waits for its finalizer"
        pause = read_pause(source.metadata.annotations, now=utc_now())
        assert pause is None or pause.until is None, f"the pause of {key} has not ended yet"
        if pause is None:
            copied = secrets.get(key, {}).get("n", b"")
            assert copied == source.metadata.labels["n"].encode(), f"{key} is not copied"


async def pauses_hold_and_end(world: World) -> None:
    """After all faults, a paused source is not copied when it changes, and is copied when its pause ends."""
    assert not REACHED, f"reconciled while paused: {REACHED}"
    await resume_controller(world)
    await asyncio.sleep(700)  # a watch without packets is found out by its timeout
    await unpaused_sources_are_copied(world)
    for source in await list_sources(world):
        key = ObjectKey(source.metadata.namespace, source.metadata.name)
        await world.client.patch(source, merge_patch({"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}}))
        await asyncio.sleep(30)
        before = await world.client.get_or_none(Secret, key)
        await world.client.patch(source, merge_patch({"metadata": {"labels": {"n": "last"}}}))
        await asyncio.sleep(30)
        paused = await world.client.get_or_none(Secret, key)
        assert (paused and paused.data) == (before and before.data), f"{key} was copied while it was paused"
        await world.client.patch(source, merge_patch({"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}))
        await asyncio.sleep(30)
        resumed = await world.client.get_or_none(Secret, key)
        assert resumed is not None, f"{key} has no copy after its pause"
        assert resumed.data["n"] == b"last", f"{key} is not copied after its pause"


PAUSES = Simulation(
    operator=make_pausing_operator,
    environment=_pauses,
    actions=[
        write_labelled_source,
        write_labelled_source,
        pause_source,
        resume_source,
        request_a_reconcile,
        delete_source,
        pause_controller,
        resume_controller,
    ],
    check=unpaused_sources_are_copied,
    invariants=[pauses_hold_and_end],
    children=[Secret],
    max_actions=20,
)

ALL = {
    "websites": WEBSITES,
    "families": FAMILIES,
    "replicas": REPLICAS,
    "boxes": BOXES,
    "pauses": PAUSES,
    "threads": THREADS,
    "applications": APPLICATIONS,
}
