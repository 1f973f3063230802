"""What an operator does when something it needs is missing, refused or broken: it says so, and everything else runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from client_fakes import Site, site

from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.apiserver.auth.authorization import AuthorizerAttributes, Decision
from opsdk.builder.arguments import WatchSpec
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cluster.cluster import Cluster
from opsdk.controller.context import Context
from opsdk.controller.options import ControllerOptions
from opsdk.controller.reconcile import Result
from opsdk.errors import CacheSyncError, ForbiddenError, TerminalError, UsageError
from opsdk.event.predicates import ignore_own_writes
from opsdk.event.request import Request
from opsdk.event.sources import SyncPolicy
from opsdk.http.server.request import HttpRequest, Query
from opsdk.queue.rate_limiters import ItemExponentialFailureRateLimiter
from opsdk.recipes.owner_references import set_controller_reference
from opsdk.structured_merge.value import JsonObject

effects = pytest.importorskip("envtest.testing.effects", reason="needs the envtest extra: pip install opsdk[envtest]")
environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")


class Denies:
    """Everything but reading many objects of some resources."""

    def __init__(self, *resources: str) -> None:
        self.resources = set(resources)

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        """Deny list and watch."""
        return Decision(allowed=not (attributes.resource in self.resources and attributes.verb in ("list", "watch")))


@asynccontextmanager
async def started(operator: Operator, config: Any) -> AsyncIterator[asyncio.Task[None]]:
    """The operator, running for a while."""
    task = asyncio.create_task(operator.start(config))
    await asyncio.sleep(5)
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def readiness(operator: Operator, name: str = "") -> tuple[int, str]:
    """Status and text of ``/readyz``, or of one of its checks."""
    path = f"/readyz/{name}" if name else "/readyz"
    answer = await operator.manager.readyz.handle(HttpRequest("GET", path, Query(""), [], _no_body))
    assert answer is not None
    return answer.status, answer.body.decode()


async def _no_body() -> JsonObject:
    return {"type": "http.request", "body": b"", "more_body": False}


def config(name: str) -> ConfigMap:
    """A config map."""
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


@pytest.mark.slow
async def test_a_missing_kind_stops_no_other_controller() -> None:
    """A controller waits for its missing kind, readiness names it, and other controllers work."""
    names: list[str] = []
    async with environment.Environment() as env, Cluster(env.config) as outside:
        operator = Operator("o")

        @operator.reconciler(Site, options=ControllerOptions(needs_leader_election=False))
        async def sites(request: Request) -> None:
            names.append(f"site {request.name}")

        @operator.reconciler(ConfigMap)
        async def configs(request: Request) -> None:
            names.append(f"config {request.name}")

        async with started(operator, env.config) as task:
            await asyncio.sleep(7200)
            assert not task.done()
            await outside.uncached.create(config("a"))
            await asyncio.sleep(1)
            assert "config a" in names
            assert (await readiness(operator))[0] == 500
            assert "Kind=Site" in (await readiness(operator, "controller-site"))[1]
            await outside.uncached.create(Unstructured.from_tree(crd_for(Site)))
            await asyncio.sleep(5)
            await outside.uncached.create(site(namespace="default"))
            await asyncio.sleep(15)
            assert "site a" in names
            assert (await readiness(operator))[0] == 200


async def test_a_controller_may_go_on_without_a_source() -> None:
    """With DEGRADE the workers start without the source, which joins when its permission is granted."""
    names: list[str] = []
    denies = Denies("secrets")
    async with environment.Environment(authorizer=denies) as env, Cluster(env.config) as outside:
        operator = Operator("o")
        watch = WatchSpec(kind=Secret, handler=lambda secret: [Request("default", f"by {secret.metadata.name}")])
        options = ControllerOptions(sync_policy=SyncPolicy.DEGRADE, cache_sync_timeout=30)

        @operator.reconciler(ConfigMap, watches=[watch], options=options)
        async def reconcile(request: Request) -> None:
            names.append(request.name)

        async with started(operator, env.config):
            await outside.uncached.create(config("a"))
            await asyncio.sleep(40)
            assert "a" in names
            assert "secrets" in (await readiness(operator, "controller-configmap"))[1]
            denies.resources.clear()
            await asyncio.sleep(90)
            await outside.uncached.create(Secret(metadata=ObjectMeta(name="s", namespace="default")))
            await asyncio.sleep(1)
            assert "by s" in names
            assert (await readiness(operator, "controller-configmap"))[0] == 200


async def test_each_source_may_have_a_policy_of_its_own() -> None:
    """An optional source may lack its permission while the required sources of the controller must sync."""
    names: list[str] = []
    denies = Denies("secrets")
    async with environment.Environment(authorizer=denies) as env, Cluster(env.config) as outside:
        operator = Operator("o")
        optional = WatchSpec(kind=Secret, handler=lambda _: [], sync_policy=SyncPolicy.DEGRADE)
        options = ControllerOptions(cache_sync_timeout=30)

        @operator.reconciler(ConfigMap, watches=[optional], options=options)
        async def reconcile(request: Request) -> None:
            names.append(request.name)

        async with started(operator, env.config):
            await outside.uncached.create(config("a"))
            await asyncio.sleep(40)
            assert "a" in names
        strict = Operator("strict")
        needed = WatchSpec(kind=Secret, handler=lambda _: [], sync_policy=SyncPolicy.FAIL)

        @strict.reconciler(ConfigMap, watches=[needed], options=ControllerOptions(sync_policy=SyncPolicy.DEGRADE))
        async def reconcile_strictly(request: Request) -> None: ...

        with pytest.raises(CacheSyncError, match="secrets"):
            async with asyncio.timeout(300):
                await strict.start(env.config)


async def test_a_cached_read_that_is_denied_raises_at_once() -> None:
    """A reconciler hears of the missing permission with the server's words, and other keys are not held up."""
    errors: list[BaseException | None] = []
    names: list[str] = []
    async with environment.Environment(authorizer=Denies("secrets")) as env, Cluster(env.config) as outside:
        operator = Operator("o")

        @operator.reconciler(ConfigMap)
        async def reconcile(request: Request) -> None:
            names.append(request.name)
            if request.name == "a":
                try:
                    await operator.client.list(Secret)
                except Exception as error:
                    errors.append(error.__cause__)
                    raise

        async with started(operator, env.config):
            await outside.uncached.create(config("a"))
            await asyncio.sleep(1)
            await outside.uncached.create(config("b"))
            await asyncio.sleep(20)
            assert isinstance(errors[0], ForbiddenError)
            assert "b" in names
            assert "cannot" in (await readiness(operator, "caches-synced"))[1]


@pytest.mark.behaviour(48, better="Health, readiness and the sync timeout include the server's message.")
async def test_readiness_follows_the_watch() -> None:
    """An informer that has synced and then loses its permission makes the replica unready, until it has it back."""
    denies = Denies()
    async with environment.Environment(authorizer=denies) as env:
        operator = Operator("o")

        @operator.reconciler(ConfigMap)
        async def reconcile(request: Request) -> None: ...

        async with started(operator, env.config):
            assert (await readiness(operator))[0] == 200
            denies.resources.add("configmaps")
            await asyncio.sleep(1500)
            status, text = await readiness(operator, "caches-synced")
            assert status == 500
            assert "configmaps" in text
            denies.resources.clear()
            await asyncio.sleep(90)
            assert (await readiness(operator))[0] == 200


async def test_failing_user_functions_show_in_readiness() -> None:
    """An index and a map function that raise are named; the objects are reconciled all the same."""
    names: list[str] = []
    async with environment.Environment() as env, Cluster(env.config) as outside:
        operator = Operator("o")
        watch = WatchSpec(kind=Secret, handler=lambda secret: [Request("", secret.metadata.labels["missing"])])

        @operator.reconciler(ConfigMap, watches=[watch])
        async def reconcile(request: Request) -> None:
            names.append((await operator.client.get(ConfigMap, request.key)).metadata.name)

        @operator.setup
        def index(operator: Operator) -> None:
            operator.cluster.cache.index_field(ConfigMap, "owner", lambda m: [m.metadata.annotations["owner"]])

        async with started(operator, env.config):
            await outside.uncached.create(config("a"))
            await outside.uncached.create(Secret(metadata=ObjectMeta(name="s", namespace="default")))
            await asyncio.sleep(1)
            assert "a" in names
            assert "index 'owner'" in (await readiness(operator, "user-functions"))[1]
            assert "missing" in (await readiness(operator, "user-functions-configmap"))[1]
            assert (await readiness(operator, "caches-synced"))[0] == 200


async def test_informers_end_with_their_last_user() -> None:
    """Controllers that have stopped hold no informer; one that a read started stays."""
    async with environment.Environment() as env:
        operator = Operator("o")

        @operator.reconciler(ConfigMap, options=ControllerOptions(needs_leader_election=False))
        async def reconcile(request: Request) -> None: ...

        async with started(operator, env.config):
            cache = operator.cluster.cache
            await operator.client.list(Secret)
            assert {kind.gvk.kind for kind in cache.kinds()} == {"ConfigMap", "Secret"}
            [registration] = [kind for kind in cache.kinds() if kind.gvk.kind == "ConfigMap"]
            handle = registration.add_handler(lambda delta: None)
            handle.remove()
            await cache.release(registration)
            assert {kind.gvk.kind for kind in cache.kinds()} == {"ConfigMap", "Secret"}


async def test_controllers_share_options_but_no_rate_limiter() -> None:
    """Two controllers with one options value count the failures of a key apart."""
    attempts: dict[str, list[float]] = {"bad": [], "good": []}
    async with environment.Environment() as env, Cluster(env.config) as outside:
        limiter = ItemExponentialFailureRateLimiter[Request](base=1.0, cap=1000.0)
        operator = Operator("o", OperatorOptions(controller=ControllerOptions(rate_limiter=limiter)))

        @operator.reconciler(ConfigMap, name="bad")
        async def bad(request: Request) -> None:
            if request.name == "a":
                attempts["bad"].append(asyncio.get_running_loop().time())
                raise ValueError

        @operator.reconciler(ConfigMap, name="good")
        async def good(request: Request) -> Result:
            attempts["good"].append(0.0)
            return Result(requeue_after=timedelta(seconds=1))

        async with started(operator, env.config):
            await outside.uncached.create(config("a"))
            await asyncio.sleep(1000)
    assert len(attempts["bad"]) == 10
    assert len(attempts["good"]) > 900


@pytest.mark.behaviour(79)
async def test_a_terminal_error_may_be_wrapped() -> None:
    """An error raised ``from`` a `TerminalError` is final too."""
    attempts = 0
    async with environment.Environment() as env, Cluster(env.config) as outside:
        operator = Operator("o")

        @operator.reconciler(ConfigMap)
        async def reconcile(request: Request) -> None:
            nonlocal attempts
            if request.name == "a":
                attempts += 1
                raise RuntimeError("wrapped") from TerminalError("final")

        async with started(operator, env.config):
            await outside.uncached.create(config("a"))
            await asyncio.sleep(600)
    assert attempts == 1


def mistake_async_context(operator: Operator) -> None:
    """A plain reconciler, which runs in a thread, with the context of an async one."""

    @operator.reconciler(ConfigMap)  # type: ignore[arg-type]
    def reconcile(request: Request, ctx: Context) -> None: ...


def mistake_async_setup(operator: Operator) -> None:
    """A setup function that is never awaited."""

    @operator.setup
    async def setup(operator: Operator) -> None: ...


def mistake_forgotten_complete(operator: Operator) -> None:
    """A builder without its end."""

    async def reconcile(request: Request) -> None: ...

    @operator.setup
    def setup(operator: Operator) -> None:
        operator.controller_for(ConfigMap).reconciler(reconcile)


def mistake_nothing(operator: Operator) -> None:
    """No reconciler at all."""


@pytest.mark.parametrize(
    ("mistake", "advice"),
    [
        (mistake_async_context, "BlockingContext"),
        (mistake_async_setup, "plain def"),
        (mistake_forgotten_complete, r"complete\(\)"),
        (mistake_nothing, "nothing to run"),
    ],
)
async def test_mistakes_that_would_run_silently_are_refused(mistake: Callable[[Operator], None], advice: str) -> None:
    """Declared wrongly, an operator does not start; the error says what to do."""
    async with environment.Environment() as env:

        async def declare_and_start() -> None:
            operator = Operator("o")
            mistake(operator)
            await operator.start(env.config)

        with pytest.raises(UsageError, match=advice):
            await declare_and_start()


async def test_own_writes_can_be_ignored_without_missing_a_foreign_change() -> None:
    """A reconciler that stamps its object with a lock runs once for each foreign change, and never for its own."""
    names: list[str] = []
    async with environment.Environment() as env, Cluster(env.config) as outside:
        operator = Operator("o")

        async def stamp(request: Request) -> None:
            if request.name != "a":
                return
            obj = await operator.client.get(ConfigMap, request.key)
            names.append(obj.metadata.resource_version)
            obj.metadata.annotations["runs"] = str(len(names))
            await operator.client.update(obj)

        @operator.setup
        def setup(operator: Operator) -> None:
            builder = operator.controller_for(ConfigMap, name="stamp").reconciler(stamp)
            builder.with_event_filter(ignore_own_writes()).complete()

        async with started(operator, env.config):
            await outside.uncached.create(config("a"))
            await asyncio.sleep(5)
            assert len(names) == 1
            for count in (2, 3, 4):
                foreign = await outside.uncached.get(ConfigMap, "default/a")
                foreign.data["n"] = str(count)
                await outside.uncached.update(foreign)
                await asyncio.sleep(5)
                assert len(names) == count


@pytest.mark.behaviour(114)
async def test_workers_by_kind() -> None:
    """The operator's number for a kind applies to controllers without options of their own."""
    numbers: dict[str, int] = {}
    async with environment.Environment() as env:
        operator = Operator("o", OperatorOptions(max_concurrent_reconciles_by_kind={"ConfigMap": 7}))

        async def nothing(request: Request) -> None: ...

        @operator.setup
        def setup(operator: Operator) -> None:
            own = ControllerOptions(max_concurrent_reconciles=2)
            for name, kind, options in (("a", ConfigMap, None), ("b", ConfigMap, own), ("c", Secret, None)):
                controller = operator.controller_for(kind, name=name, options=options).reconciler(nothing).complete()
                numbers[name] = controller.options.max_concurrent_reconciles

        async with started(operator, env.config):
            assert numbers == {"a": 7, "b": 2, "c": 1}


async def test_a_child_deleted_in_a_gap_of_its_watch_is_made_again() -> None:
    """A child that was deleted before any list or watch showed it is created again."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        await outside.uncached.create(Unstructured.from_tree(crd_for(Site)))
        operator = Operator("o")

        @operator.reconciler(Site, owns=[ConfigMap])
        async def reconcile(request: Request) -> None:
            owner = await operator.client.get_or_none(Site, request.key)
            child = await operator.client.get_or_none(ConfigMap, request.key)
            if owner is not None and child is None:
                child = config(request.name)
                set_controller_reference(owner, child)
                await operator.client.create(child)

        user = env.add_user("operator", groups=["system:masters"])
        async with started(operator, user.config):
            match = {"resource": "configmaps", "user": "operator"}
            broken = [env.faults.add(effects.Fail(503), verb=verb, **match) for verb in ("list", "watch")]
            env.faults.drop_watches()
            await asyncio.sleep(5)
            await outside.uncached.create(site(namespace="default"))
            await asyncio.sleep(5)
            await outside.uncached.delete(await outside.uncached.get(ConfigMap, "default/a"))
            env.faults.compact()
            for rule in broken:
                rule.remove()
            await asyncio.sleep(90)
            assert await outside.uncached.get_or_none(ConfigMap, "default/a") is not None
