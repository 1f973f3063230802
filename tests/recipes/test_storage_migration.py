"""Objects rewritten in a new storage version, on a whole API server in this process, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from webhook_reviews import OldSite, OldSiteSpec, Site, SiteSpec

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.apiserver.storage.sqlite import SqliteStorage
from opsdk.builder.operator import Operator
from opsdk.client.client import Client
from opsdk.client.decorators.intercept import intercept
from opsdk.client.operations import List, Operation, PatchObject
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.controller.context import Context
from opsdk.errors import (
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NoMatchError,
    NotFoundError,
    OpsdkError,
    ServiceUnavailableError,
    StorageMigrationError,
    TooManyRequestsError,
    UsageError,
)
from opsdk.manager.manager import Manager
from opsdk.recipes.storage_migration import (
    MigrationOptions,
    MigrationProgress,
    StorageMigrator,
    migrate_storage_version,
)
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.running import running
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService, conversion_stanza
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.server import WebhookServer

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
effects = pytest.importorskip("envtest.testing.effects", reason="needs the envtest extra: pip install opsdk[envtest]")
install = pytest.importorskip("envtest.plane.install", reason="needs the envtest extra: pip install opsdk[envtest]")

NAME = "sites.demo.opsdk.dev"
DEFINITION = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
SMALL = MigrationOptions(page_size=3, concurrency=2)
SERVICE = WebhookClientConfig(service=WebhookService(name="hooks", namespace="default"))
CONVERTER = HubSpokeConverter(
    Site,
    Spoke(
        OldSite,
        lambda old: Site(spec=SiteSpec(image=old.spec.picture, replicas=old.spec.count)),
        lambda site: OldSite(spec=OldSiteSpec(picture=site.spec.image, count=site.spec.replicas)),
    ),
)
FAULTS: list[tuple[str, JsonObject]] = [
    ("Fail", {"code": 503}),
    ("Fail", {"code": 500}),
    ("Conflict", {}),
    ("Delay", {"seconds": 2.0, "jitter": 5.0}),
    ("Reset", {}),
    ("Reset", {"after_commit": True}),
    ("Truncate", {}),
]
Proceed = Callable[[Operation], Awaitable[Any]]


class Plain(OldSite):
    """A site with the fields of the old version, for conversion by name."""

    gvk = Site.gvk


@dataclass
class World:
    """A server whose sites are stored in v1beta1 while v1 is the storage version."""

    env: Any
    client: Client

    def stored(self) -> dict[str, str]:
        """The version in which each site is stored, read from the storage."""
        page = self.env.plane.storage.list_now("demo.opsdk.dev/sites/")
        return {key.rpartition("/")[2]: obj["apiVersion"].rpartition("/")[2] for key, obj in page.items}

    async def stored_versions(self) -> Any:
        """``status.storedVersions`` of the definition."""
        return (await self.client.get(DEFINITION, NAME))["status"]["storedVersions"]

    async def define(self, *kinds: Any) -> None:
        """Change the versions of the definition; the first one is the storage version."""
        crd = crd_for(*kinds)
        await self.client.patch(
            Unstructured.from_tree(crd), merge_patch({"spec": {"versions": crd["spec"]["versions"]}})
        )

    def fail(self, operation: type[Operation], *errors: OpsdkError | None, nth: int = 1) -> Client:
        """A client whose n-th operation of a sort, and those after it, fail with `errors`; None passes."""
        pending, attempts = list(errors), Counter[type]()

        async def intercepted(request: Operation, proceed: Proceed) -> Any:
            if isinstance(request, operation) and not getattr(request, "subresource", ""):
                attempts[operation] += 1
                if attempts[operation] >= nth and pending and (error := pending.pop(0)) is not None:
                    raise error
            return await proceed(request)

        return intercept(self.client, intercepted)


def old_site(name: str) -> OldSite:
    """A site of the old version."""
    return OldSite(metadata=ObjectMeta(name=name, namespace="default"), spec=OldSiteSpec(picture=name, count=2))


@asynccontextmanager
async def world(count: int = 7, *, webhook: bool = False, **options: Any) -> AsyncIterator[World]:
    """A world with `count` sites ``s0``, ``s1`` ..."""
    crd = crd_for(OldSite, Site if webhook else Plain)
    hooks = None
    if webhook:
        server = WebhookServer()
        server.register_converter(CONVERTER)
        crd["spec"]["conversion"] = conversion_stanza(SERVICE)
        hooks = install.Webhooks(app=server.app)
    async with (
        environment.Environment(crds=[crd], webhooks=hooks, **options) as env,
        Cluster(env.config) as cluster,
    ):
        here = World(env, cluster.uncached)
        for n in range(count):
            await here.client.create(old_site(f"s{n}"))
        await here.define(Site if webhook else Plain, OldSite)
        assert await here.stored_versions() == ["v1beta1", "v1"]
        yield here


@pytest.mark.parametrize("webhook", [False, True])
async def test_every_object_is_stored_in_the_storage_version(webhook: bool) -> None:
    """A patch without a change makes the server encode the object anew; then the old version can be dropped."""
    async with world(webhook=webhook) as here:
        pages: list[MigrationProgress] = []
        assert set(here.stored().values()) == {"v1beta1"}
        progress = await migrate_storage_version(here.client, Site, options=SMALL, on_progress=pages.append)
        assert here.stored() == {f"s{n}": "v1" for n in range(7)}
        assert (progress.rewritten, progress.restarts, progress.finished) == (7, 0, True)
        assert [(page.rewritten, page.remaining) for page in pages] == [(3, 4), (6, 1), (7, None)]
        assert await here.stored_versions() == ["v1"]
        old = await here.client.get(OldSite, "default/s3")
        assert (old.spec.picture, old.spec.count, old.metadata.generation) == ("s3", 2, 1)
        await here.define(Site if webhook else Plain)  # refused while storedVersions lists v1beta1


async def test_a_second_migration_writes_nothing() -> None:
    """The definition says that all is done; when it does not, objects in the storage version are not written."""
    async with world() as here:
        await migrate_storage_version(here.client, NAME)
        revision = here.env.plane.storage.current_rv
        assert (await migrate_storage_version(here.client, NAME)).finished
        assert here.env.plane.storage.current_rv == revision
        crd = Unstructured("apiextensions.k8s.io/v1", "CustomResourceDefinition", ObjectMeta(name=NAME))
        await here.client.status().patch(crd, merge_patch({"status": {"storedVersions": ["v1beta1", "v1"]}}))
        progress = await migrate_storage_version(here.client, NAME)
        assert (progress.unchanged, progress.rewritten, progress.finished) == (7, 0, True)


@pytest.mark.parametrize("nth", range(1, 5))
@pytest.mark.parametrize(
    "error", [ServiceUnavailableError("down"), ConnectionLostError("broke")], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("operation", [List, PatchObject])
async def test_requests_are_repeated(operation: type[Operation], error: OpsdkError, nth: int) -> None:
    """A failure of the n-th request, three times, delays the migration only."""
    async with world() as here:
        client = here.fail(operation, error, error, error, nth=nth)
        progress = await migrate_storage_version(client, Site, options=SMALL)
        assert progress.finished
        assert set(here.stored().values()) == {"v1"}


async def test_the_server_decides_how_long_to_wait() -> None:
    """A ``retry_after`` that is longer than the backoff is kept."""
    async with world(1) as here:
        loop = asyncio.get_running_loop()
        client, began = here.fail(PatchObject, TooManyRequestsError("busy", retry_after=50.0)), loop.time()
        await migrate_storage_version(client, Site, options=SMALL)
        assert loop.time() - began >= 50


async def test_a_lost_response_counts_as_another_writer() -> None:
    """The repeated patch conflicts with the own write, which has done the work."""
    async with world(3) as here:

        async def lose_one(operation: Operation, proceed: Proceed) -> Any:
            result = await proceed(operation)
            if isinstance(operation, PatchObject) and not operation.subresource and not lost:
                lost.append(operation)
                raise ConnectionLostError("after the write")
            return result

        lost: list[Operation] = []
        progress = await migrate_storage_version(intercept(here.client, lose_one), Site, options=SMALL)
        assert (progress.rewritten, progress.superseded, progress.finished) == (2, 1, True)
        assert set(here.stored().values()) == {"v1"}


async def test_a_conflict_without_another_writer_is_no_success() -> None:
    """A webhook may answer with 409: the object is tried again, and then counts as rejected."""
    async with world(2) as here:
        conflict = ConflictError("denied by a webhook")
        client = here.fail(PatchObject, conflict, conflict)
        assert (await migrate_storage_version(client, Site, options=SMALL)).rewritten == 2
    async with world(2) as here:

        async def deny(operation: Operation, proceed: Proceed) -> Any:
            if isinstance(operation, PatchObject) and operation.obj.metadata.name == "s1":
                raise ConflictError("denied by a webhook")
            return await proceed(operation)

        with pytest.raises(StorageMigrationError, match="default/s1: denied by a webhook"):
            await migrate_storage_version(intercept(here.client, deny), Site)
        assert here.stored() == {"s0": "v1", "s1": "v1beta1"}
        assert await here.stored_versions() == ["v1beta1", "v1"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_a_server_that_fails_at_random(seed: int) -> None:
    """Errors, conflicts, delays and lost connections of the server: the migrator finishes, and no object is left."""
    async with world(30) as here:
        faults = here.env.faults
        faults.seed(seed)
        for name, arguments in FAULTS:
            faults.add(getattr(effects, name)(**arguments), probability=0.08)
        migrator = StorageMigrator(here.client, NAME, options=SMALL, interval=60)
        running_migrator = asyncio.create_task(migrator.start())
        try:
            async with asyncio.timeout(86400):
                while migrator.progress is None or not migrator.progress.finished:
                    await asyncio.sleep(60)
        finally:
            running_migrator.cancel()
            await asyncio.gather(running_migrator, return_exceptions=True)
        faults.clear()
        assert set(here.stored().values()) == {"v1"}
        assert len(here.stored()) == 30
        assert await here.stored_versions() == ["v1"]


async def test_objects_that_change_meanwhile() -> None:
    """Changed, deleted and replaced objects need no write; new objects are in the storage version from the start."""
    async with world(4) as here:

        async def interfere(operation: Operation, proceed: Proceed) -> Any:
            result = await proceed(operation)
            if isinstance(operation, List):
                site = await here.client.get(OldSite, "default/s0")
                site.spec.count = 9
                await here.client.update(site)
                await here.client.delete(OldSite, "default/s1")
                await here.client.delete(OldSite, "default/s2")
                await here.client.create(old_site("s2"))
                await here.client.create(old_site("s4"))
            return result

        progress = await migrate_storage_version(intercept(here.client, interfere), Site)
        assert (progress.rewritten, progress.superseded, progress.gone) == (1, 2, 1)
        assert here.stored() == dict.fromkeys(["s0", "s2", "s3", "s4"], "v1")
        assert (await here.client.get(OldSite, "default/s0")).spec.count == 9


async def test_an_expired_list_goes_on_where_it_stopped() -> None:
    """The server's second token continues with the objects as they are now; none is left out."""
    async with world(9) as here:
        expired: list[str] = []

        def compact(progress: MigrationProgress) -> None:
            if not expired:
                expired.append(progress.definition)
                here.env.faults.compact()

        progress = await migrate_storage_version(here.client, Site, options=SMALL, on_progress=compact)
        assert (progress.rewritten, progress.unchanged, progress.restarts) == (9, 0, 1)
        assert set(here.stored().values()) == {"v1"}


async def test_an_expired_list_without_a_token_starts_again() -> None:
    """Objects that are done are then unchanged. Expiring forever ends the migration."""
    async with world(7) as here:
        client = here.fail(List, GoneError("expired"), nth=3)
        progress = await migrate_storage_version(client, Site, options=SMALL)
        assert (progress.rewritten, progress.unchanged, progress.restarts) == (7, 6, 1)
    async with world(1) as here:
        client = here.fail(List, *[GoneError("expired")] * 100)
        with pytest.raises(GoneError):
            await migrate_storage_version(client, Site, options=SMALL)
        assert await here.stored_versions() == ["v1beta1", "v1"]


async def test_a_change_of_the_storage_version_starts_again() -> None:
    """The version changes there and back while objects are written, so some are stored in the old one again."""
    async with world(6) as here:
        flips: list[int] = []

        async def flip(operation: Operation, proceed: Proceed) -> Any:
            if isinstance(operation, List) and operation.options.continue_token and not flips:
                flips.append(1)
                await here.define(OldSite, Plain)
                site = await here.client.get(OldSite, "default/s0")
                site.spec.count = 9
                await here.client.update(site)
                await here.define(Plain, OldSite)
                assert here.stored()["s0"] == "v1beta1"
            return await proceed(operation)

        progress = await migrate_storage_version(intercept(here.client, flip), Site, options=SMALL)
        assert progress.restarts > 0
        assert here.stored() == {f"s{n}": "v1" for n in range(6)}
        assert await here.stored_versions() == ["v1"]


async def test_a_definition_that_keeps_changing_ends_the_migration() -> None:
    """A definition that changes in every round ends the migration with an error, and keeps its stored versions."""
    async with world(1) as here:

        async def change(operation: Operation, proceed: Proceed) -> Any:
            if isinstance(operation, List):
                changes.append(1)
                shorts = {"spec": {"names": {"shortNames": [f"x{len(changes)}"]}}}
                crd = Unstructured("apiextensions.k8s.io/v1", "CustomResourceDefinition", ObjectMeta(name=NAME))
                await here.client.patch(crd, merge_patch(shorts))
            return await proceed(operation)

        changes: list[int] = []
        with pytest.raises(StorageMigrationError, match=f"{NAME} changed in each of 5 rounds"):
            await migrate_storage_version(intercept(here.client, change), Site)
        assert await here.stored_versions() == ["v1beta1", "v1"]


async def test_a_label_of_the_definition_is_no_change() -> None:
    """A concurrent metadata change of the definition causes a conflict, and storedVersions is still set."""
    async with world(1) as here:
        crd = Unstructured("apiextensions.k8s.io/v1", "CustomResourceDefinition", ObjectMeta(name=NAME))

        async def label(operation: Operation, proceed: Proceed) -> Any:
            if isinstance(operation, PatchObject) and operation.subresource and not operation.options.dry_run:
                marks.append(1)
                if len(marks) < 3:
                    await here.client.patch(crd, merge_patch({"metadata": {"labels": {"n": str(len(marks))}}}))
            return await proceed(operation)

        marks: list[int] = []
        assert (await migrate_storage_version(intercept(here.client, label), Site)).restarts == 0
        assert await here.stored_versions() == ["v1"]


async def test_rejected_objects_are_named() -> None:
    """Up to a limit all others are written; the stored versions stay."""
    async with world(7) as here:

        async def reject(operation: Operation, proceed: Proceed) -> Any:
            if isinstance(operation, PatchObject) and operation.obj.metadata.name in ("s2", "s4"):
                raise InvalidError("spec.count: too large")
            return await proceed(operation)

        client = intercept(here.client, reject)
        with pytest.raises(StorageMigrationError, match="rejects 2 objects") as caught:
            await migrate_storage_version(client, Site, options=SMALL)
        assert "default/s2: spec.count: too large" in str(caught.value)
        assert Counter(here.stored().values()) == {"v1": 5, "v1beta1": 2}
        assert await here.stored_versions() == ["v1beta1", "v1"]
        with pytest.raises(StorageMigrationError, match="rejects 1 objects"):
            await migrate_storage_version(client, Site, options=MigrationOptions(max_failures=1))


async def test_bad_targets() -> None:
    """Each mistake has its own error."""
    async with world(0) as here:
        with pytest.raises(NotFoundError, match=r'"cars.demo.opsdk.dev" not found'):
            await migrate_storage_version(here.client, "cars.demo.opsdk.dev")
        with pytest.raises(
            NoMatchError, match=r"the server does not serve Car.example.com: install its CustomResourceDefinition"
        ):
            await migrate_storage_version(here.client, unstructured_kind("example.com/v1", "Car"))
        with pytest.raises(UsageError, match=r"write plural\.group, or pass a class"):
            await migrate_storage_version(here.client, "sites")
        with pytest.raises(UsageError, match="ConfigMap is not a custom resource"):
            await migrate_storage_version(here.client, ConfigMap)
        with pytest.raises(UsageError, match="qps is 0"):
            MigrationOptions(qps=0)
        with pytest.raises(UsageError, match="pass more than 0 seconds"):
            StorageMigrator(here.client, Site, interval=0)


async def test_missing_rights_are_known_before_the_first_write() -> None:
    """A missing permission raises an error that names it, before any object is written."""
    async with world(2) as here:
        reader = here.env.add_user("reader")
        rules = [
            {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get"]},
            {"apiGroups": ["demo.opsdk.dev"], "resources": ["sites"], "verbs": ["list", "patch"]},
        ]
        await grant(here.client, rules)
        async with Cluster(reader.config) as cluster:
            with pytest.raises(ForbiddenError, match="customresourcedefinitions/status"):
                await migrate_storage_version(cluster.uncached, NAME)
        assert set(here.stored().values()) == {"v1beta1"}
        rules[0] |= {"resources": ["customresourcedefinitions", "customresourcedefinitions/status"]}
        rules[0]["verbs"], rules[1]["verbs"] = ["get", "patch"], ["list"]
        await grant(here.client, rules)
        async with Cluster(reader.config) as cluster:
            with pytest.raises(ForbiddenError, match="cannot patch resource"):
                await migrate_storage_version(cluster.uncached, NAME)
        rules[1]["verbs"] = ["list", "patch"]
        await grant(here.client, rules)
        async with Cluster(reader.config) as cluster:
            assert (await migrate_storage_version(cluster.uncached, NAME)).finished


async def grant(client: Client, rules: list[JsonObject]) -> None:
    """Bind a cluster role with these rules to the user ``reader``."""
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "reader"}],
    }
    for tree in (role, binding):
        await client.apply(Unstructured.from_tree(tree), field_owner="test", force=True)


async def test_the_rate_of_writes() -> None:
    """On average no more than `qps` writes a second are sent, and no more than `concurrency` at once."""
    async with world(40) as here:
        at_once = most = 0

        async def slow(operation: Operation, proceed: Proceed) -> Any:
            nonlocal at_once, most
            if not isinstance(operation, PatchObject) or operation.subresource:
                return await proceed(operation)
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.5)
            at_once -= 1
            return await proceed(operation)

        options, loop = MigrationOptions(qps=4, concurrency=3, propagation_delay=0), asyncio.get_running_loop()
        began = loop.time()
        await migrate_storage_version(intercept(here.client, slow), Site, options=options)
        assert most <= 3
        assert loop.time() - began >= (40 - 3) / 4


async def test_a_progress_function_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A progress function that raises is logged, and the migration continues."""
    async with world(1) as here:
        progress = await migrate_storage_version(here.client, Site, on_progress=lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
        assert progress.finished
        assert "the progress function of the migration" in caplog.text


async def cancelled_at(client: Client, steps: int) -> None:
    """Migrate, and cancel the migration when it sends its n-th request."""
    writes = 0

    async def stop(operation: Operation, proceed: Proceed) -> Any:
        nonlocal writes
        writes += 1
        if writes == steps:
            task.cancel()
        return await proceed(operation)

    task = asyncio.ensure_future(migrate_storage_version(intercept(client, stop), NAME, options=SMALL))
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_cancelled_migration_is_repeated_without_loss() -> None:
    """Cancelled at any request, the next call finishes the work."""
    async with world(6) as here:
        for steps in range(1, 13):
            await cancelled_at(here.client, steps)
            if await here.stored_versions() == ["v1"]:
                break
        else:
            await migrate_storage_version(here.client, NAME)
        assert set(here.stored().values()) == {"v1"}
        assert await here.stored_versions() == ["v1"]


async def test_a_manager_runs_the_migrator() -> None:
    """A migrator waits for its definition, migrates when the storage version changes, and survives failures."""
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        client, manager = cluster.uncached, Manager()
        migrator = StorageMigrator(client, NAME, interval=60)
        manager.add(migrator)
        running = asyncio.create_task(manager.start())
        await asyncio.sleep(30)
        assert isinstance(migrator.last_error, NotFoundError)
        await client.create(Unstructured.from_tree(crd_for(OldSite, Plain)))
        await asyncio.sleep(120)
        here = World(env, client)
        await client.create(old_site("a"))
        await here.define(Plain, OldSite)
        await asyncio.sleep(120)
        assert migrator.last_error is None
        assert migrator.progress is not None
        assert (migrator.progress.rewritten, migrator.progress.finished) == (1, True)
        assert await here.stored_versions() == ["v1"]
        assert migrator.needs_leader_election()
        assert repr(migrator) == f"<StorageMigrator of {NAME}>"
        manager.stop()
        await running


async def test_an_operator_migrates_the_kind_that_it_reconciles() -> None:
    """The cached client serves too: after the migration the cache has every object, and reconciles do not conflict."""
    async with world(7) as here:
        operator = Operator("sites")
        counts: Counter[str] = Counter()

        @operator.reconciler(Plain)
        async def reconcile(site: Plain, ctx: Context) -> None:
            counts[site.metadata.name] += 1
            if site.spec.count == 2:
                site.spec.count = 3
                await ctx.client.update(site)

        @operator.setup
        def migrate(operator: Operator) -> None:
            operator.manager.add(StorageMigrator(operator.client, Plain, options=SMALL))

        async with running(operator, here.env):
            await asyncio.sleep(120)
            assert await here.stored_versions() == ["v1"]
            assert here.stored() == {f"s{n}": "v1" for n in range(7)}
            cached = await operator.client.list(Plain)
            assert {(site.metadata.name, site.spec.count) for site in cached} == {(f"s{n}", 3) for n in range(7)}
            server = await here.client.list(Plain)
            assert {s.metadata.resource_version for s in cached} == {s.metadata.resource_version for s in server}
        assert counts.keys() == here.stored().keys()


@pytest.mark.slow
async def test_objects_in_a_file_are_rewritten(tmp_path: Path) -> None:
    """The versions are read from the database after the server has closed it."""
    async with world(3, data_dir=tmp_path) as here:
        await migrate_storage_version(here.client, Site)
    storage = SqliteStorage(tmp_path / "objects.db")
    page = storage.list_now("demo.opsdk.dev/sites/")
    assert [obj["apiVersion"] for _, obj in page.items] == ["demo.opsdk.dev/v1"] * 3
    storage.close()


async def test_a_storage_version_that_is_not_served() -> None:
    """Objects are listed and patched in a served version; the server stores them in the storage version."""
    async with world(3) as here:
        crd = crd_for(Plain, OldSite)
        crd["spec"]["versions"][0]["served"] = False
        await here.client.patch(
            Unstructured.from_tree(crd), merge_patch({"spec": {"versions": crd["spec"]["versions"]}})
        )
        progress = await migrate_storage_version(here.client, NAME)
        assert (progress.storage_version, progress.rewritten) == ("v1", 3)
        assert set(here.stored().values()) == {"v1"}


@pytest.mark.slow
@pytest.mark.parametrize(("count", "webhook"), [(2000, False), (500, True)])
async def test_a_migration_keeps_concurrent_writes(count: int, webhook: bool) -> None:
    """During a migration no object and no write is lost, and all objects reach the storage version."""
    async with world(count, webhook=webhook, hot_loop_limit=0) as here:
        rng, writing, created, deleted = random.Random(7), True, 0, 0

        async def write(number: int) -> dict[str, int]:
            nonlocal created, deleted
            # Each writer has its own objects, so that it knows their state.
            counts = {f"s{n}": 2 for n in range(number, count, 4)}
            names = list(counts)
            while writing:
                await asyncio.sleep(rng.random() * 0.1)
                name = names[rng.randrange(len(names))]
                try:
                    if (dice := rng.random()) < 0.1:
                        created += 1
                        name = f"new-{number}-{created}"
                        await here.client.create(old_site(name))
                        counts[name] = 2
                        names.append(name)
                    elif dice < 0.2 and name in counts:
                        deleted += 1
                        await here.client.delete(OldSite, f"default/{name}")
                        del counts[name]
                    else:
                        site = await here.client.get(OldSite, f"default/{name}")
                        site.spec.count = rng.randrange(100)
                        await here.client.update(site)
                        counts[name] = site.spec.count
                except (ConflictError, NotFoundError):
                    continue  # the migration was faster, or the object is deleted
            return counts

        writers = [asyncio.create_task(write(number)) for number in range(4)]
        pages = 0

        def compact(progress: MigrationProgress) -> None:
            nonlocal pages
            pages += 1
            if pages in (1, 4):
                here.env.faults.compact()

        progress = await migrate_storage_version(
            here.client, NAME, options=MigrationOptions(page_size=count // 10), on_progress=compact
        )
        writing = False
        counts = {name: size for part in await asyncio.gather(*writers) for name, size in part.items()}
        assert progress.restarts == 2
        assert progress.superseded + progress.gone > 0
        assert created > 5 < deleted
        stored = here.stored()
        assert stored.keys() == counts.keys()
        assert set(stored.values()) == {"v1"}
        assert {s.metadata.name: s.spec.count for s in await here.client.list(OldSite)} == counts
        assert await here.stored_versions() == ["v1"]
