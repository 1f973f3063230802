"""Operators of many clusters, on embedded API servers and in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
from debug_rows import debug_rows

from opsdk import Cluster, Context, ObjectMeta, Operator, OperatorOptions, Request, RestConfig, UsageError
from opsdk.api.core.v1 import ConfigMap, Namespace, Secret
from opsdk.apimachinery.meta import Condition
from opsdk.errors import LeaderElectionLostError
from opsdk.fleet.fleet import ControllerClass, Fleet
from opsdk.fleet.object_provider import CONDITION_ANNOTATION, KubeconfigSecrets
from opsdk.fleet.provider import ClusterProvider, KubeconfigDirectory, StaticClusters
from opsdk.manager.options import ManagerOptions
from opsdk.rest.kubeconfig import config_from_text
from opsdk.testing.eventually import eventually

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")

OPTIONS = OperatorOptions(
    manager=ManagerOptions(health_probe_bind_address="0", metrics_bind_address="0"), leader_election=True
)


class Replica:
    """One replica of an operator that labels the ConfigMaps of its clusters."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.seen: list[Request] = []
        self.management_runs: list[str] = []
        self.api_runs: list[str] = []
        self.operator = Operator("labeller", OPTIONS)
        self.fleet = Fleet(self.operator, world.make_provider())

        @self.fleet.reconciler(ConfigMap)
        async def label(request: Request, ctx: Context) -> None:
            assert ctx.cluster.name == request.cluster
            config_map = await ctx.client.get_or_none(ConfigMap, request.key)
            if config_map is None or request.namespace != "default":
                return
            self.seen.append(request)
            config_map.metadata.labels["by"] = name
            with suppress(LeaderElectionLostError):
                await ctx.client.update(config_map)

        @self.fleet.reconciler(Namespace, controller_class=ControllerClass.MANAGEMENT)
        async def manage(request: Request) -> None:
            self.management_runs.append(request.name)

        @self.fleet.reconciler(Namespace, controller_class=ControllerClass.API, name="api")
        async def remember(request: Request) -> None:
            self.api_runs.append(request.name)

        self.task = asyncio.get_running_loop().create_task(self.operator.start(world.management.config), name=name)

    async def stop(self) -> None:
        """Stop gracefully."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


class World:
    """A management cluster, managed clusters, and replicas."""

    def __init__(self, names: list[str], make_provider: Callable[[World], ClusterProvider] | None = None) -> None:
        self.management = environment.Environment()
        self.managed = {name: environment.Environment() for name in names}
        self.static = StaticClusters()
        self._make_provider = make_provider
        self.replicas: list[Replica] = []

    def make_provider(self) -> ClusterProvider:
        """Return the provider of a replica."""
        return self._make_provider(self) if self._make_provider is not None else self.static

    async def __aenter__(self) -> Self:
        await self.management.start()
        for name, env in self.managed.items():
            await env.start()
            self.static.join(name, env.config)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(replica.stop() for replica in self.replicas))
        for env in (*self.managed.values(), self.management):
            await env.aclose()

    def start(self, *names: str) -> list[Replica]:
        """Start replicas."""
        started = [Replica(self, name) for name in names]
        self.replicas += started
        return started

    async def create(self, cluster: str, name: str) -> None:
        """Create a ConfigMap in a managed cluster."""
        async with Cluster(self.managed[cluster].config) as direct:
            await direct.uncached.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default")))

    async def labelled(self, cluster: str, name: str) -> str:
        """Return which replica labelled a ConfigMap, when one has."""
        async with Cluster(self.managed[cluster].config) as direct:

            async def label() -> str | None:
                obj = await direct.uncached.get(ConfigMap, f"default/{name}")
                return obj.metadata.labels.get("by")

            return await eventually(label, within=60)

    async def settled(self) -> None:
        """Return when each cluster has one owner."""

        def check() -> bool:
            owners = [name for replica in self.replicas for name in replica.fleet.owned]
            return sorted(owners) == sorted(self.managed)

        await asyncio.sleep(1)
        await eventually(check, within=60)


async def test_one_reconciler_runs_over_all_clusters() -> None:
    """Requests carry their cluster, and the context has its client."""
    async with World(["eu", "us"]) as world:
        (replica,) = world.start("a")
        for cluster in world.managed:
            await world.create(cluster, "x")
            assert await world.labelled(cluster, "x") == "a"
        assert set(replica.seen) == {Request("default", "x", "eu"), Request("default", "x", "us")}
        assert str(replica.seen[0]) in {"eu: default/x", "us: default/x"}
        assert replica.fleet.clusters.keys() == {"eu", "us"}


async def test_controller_classes_run_where_they_belong() -> None:
    """API on every replica, MANAGEMENT on the leader, USER on the replica that owns the cluster.

    norman.md 4.5, controller classes: two replicas; the leader ends, and MANAGEMENT moves; a cluster that joins starts
    on exactly one.
    """
    async with World(["eu", "us", "asia"]) as world:
        a, b = world.start("a", "b")
        await world.settled()
        await eventually(lambda: a.api_runs and b.api_runs)
        assert bool(a.management_runs) != bool(b.management_runs)
        leader, other = (a, b) if a.management_runs else (b, a)
        await leader.stop()
        world.replicas.remove(leader)
        await eventually(lambda: other.management_runs, within=60)
        await world.settled()
        late = environment.Environment()
        async with late:
            world.managed["late"] = late
            world.static.join("late", late.config)
            await world.create("late", "x")
            assert await world.labelled("late", "x") == other.name
            await other.stop()
            del world.managed["late"]


async def test_debug_pages_show_the_controllers_of_all_clusters() -> None:
    """Controllers, caches and shards of each managed cluster are rows; a request by hand reaches its queue."""

    async def rows(replica: Replica, page: str) -> Any:
        return await debug_rows(replica.operator.manager.debug, page)

    async with World(["eu", "us"]) as world:
        (replica,) = world.start("a")
        await world.settled()
        controllers = {(row["controller"], row["cluster"]) for row in await rows(replica, "controllers")}
        assert {("configmap@eu", "eu"), ("configmap@us", "us")} <= controllers
        assert {row["cluster"] for row in await rows(replica, "informers") if row["name"] == "configmaps"} == {
            "eu",
            "us",
        }
        shards = await rows(replica, "shards")
        assert [(row["shard"], row["state"]) for row in shards] == [("eu", "owned"), ("us", "owned")]
        assert {row["holder"] for row in shards} == {row["member"] for row in shards}
        enqueued = replica.fleet.runner.enqueue_now("configmap@us", "default", "by-hand")
        assert enqueued == "queued"
        assert replica.fleet.runner.enqueue_now("configmap@asia", "default", "x") == ""


@pytest.mark.slow
async def test_a_replica_that_stops_hands_its_clusters_over() -> None:
    """Changes during the hand-over are reconciled by the next owner."""
    async with World(["eu", "us", "asia"]) as world:
        a, b = world.start("a", "b")
        await world.settled()
        assert a.fleet.owned
        assert b.fleet.owned
        world.replicas.remove(a)
        stopping = asyncio.create_task(a.stop())
        for number in range(10):
            for cluster in world.managed:
                await world.create(cluster, f"x{number}")
            await asyncio.sleep(0.3)
        await stopping
        for cluster in world.managed:
            for number in range(10):
                assert await world.labelled(cluster, f"x{number}")
        await world.settled()


async def test_a_cluster_that_leaves_is_not_reconciled_any_more() -> None:
    """A cluster that leaves has its connections and informers closed, and the others continue."""
    async with World(["eu", "us"]) as world:
        (replica,) = world.start("a")
        await world.settled()
        world.static.leave("us")
        await eventually(lambda: replica.fleet.clusters.keys() == {"eu"})
        await world.create("us", "late")
        await world.create("eu", "late")
        assert await world.labelled("eu", "late")
        await asyncio.sleep(10)
        assert Request("default", "late", "us") not in replica.seen


async def test_a_cluster_that_is_down_delays_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Unreachable and forbidden clusters have a condition with the reason; they work when they are mended."""
    caplog.set_level(logging.CRITICAL)
    async with World(["eu"]) as world:
        bad_token = msgspec.structs.replace(world.managed["eu"].config, token="wrong", client_cert_data=b"")
        world.static.join("down", RestConfig(host="http://127.0.0.1:1"))
        world.static.join("expired", bad_token)
        (replica,) = world.start("a")
        await world.create("eu", "x")
        assert await world.labelled("eu", "x") == "a"
        reasons = {"eu": "Connected", "down": "Unreachable", "expired": "Unauthorized"}
        await eventually(lambda: {name: c.reason for name, c in replica.fleet.conditions().items()} == reasons)
        conditions = replica.fleet.conditions()
        assert "127.0.0.1:1" in conditions["down"].message
        metrics = replica.operator.manager.metrics.expose().decode()
        assert 'opsdk_fleet_clusters{state="owned"} 3.0' in metrics
        assert 'opsdk_fleet_cluster_ready{cluster="eu",reason="Connected"} 1.0' in metrics
        assert 'opsdk_fleet_cluster_ready{cluster="down",reason="Unreachable"} 0.0' in metrics
        mended = environment.Environment()
        async with mended:
            world.managed["down"] = mended
            world.static.join("down", mended.config)
            await world.create("down", "x")
            assert await world.labelled("down", "x") == "a"
            await replica.stop()
            del world.managed["down"]


def kubeconfig(server: str, **user: Any) -> bytes:
    """Return a kubeconfig."""
    return msgspec.json.encode(
        {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def secret(name: str, **data: bytes) -> Secret:
    """Return a Secret of a cluster."""
    metadata = ObjectMeta(name=name, namespace="default", labels={"fleet": "yes"})
    return Secret(metadata=metadata, data=data)


async def test_secrets_describe_clusters(caplog: pytest.LogCaptureFixture) -> None:
    """Each Secret is a cluster; what is wrong with one is written to it, and delays no other one."""
    caplog.set_level(logging.CRITICAL)
    async with World([], lambda _: KubeconfigSecrets(namespace="default", label_selector="fleet=yes")) as world:
        client = Cluster(world.management.config).uncached
        await client.create(secret("empty"))
        await client.create(secret("broken", kubeconfig=b"{"))
        await client.create(
            secret(
                "exec",
                kubeconfig=kubeconfig(
                    "https://x",
                    exec={"command": "rm", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"},
                ),
            )
        )
        await client.create(secret("files", kubeconfig=kubeconfig("https://x", tokenFile="/etc/passwd")))
        await client.create(secret("down", kubeconfig=kubeconfig("http://127.0.0.1:1")))
        (replica,) = world.start("a")

        async def condition(name: str) -> Condition | None:
            text = (await client.get(Secret, f"default/{name}")).metadata.annotations.get(CONDITION_ANNOTATION)
            return msgspec.json.decode(text, type=Condition) if text else None

        expected = {
            "empty": ("InvalidConfig", "no key 'kubeconfig'"),
            "broken": ("InvalidConfig", "not valid YAML"),
            "exec": ("InvalidConfig", "exec plugin is not allowed"),
            "files": ("InvalidConfig", "put the data inline"),
            "down": ("Unreachable", "127.0.0.1:1"),
        }
        for name, (reason, words) in expected.items():
            observed = await eventually(lambda name=name: condition(name), within=60)
            assert (observed.status, observed.reason) == ("False", reason)
            assert words in observed.message
        await client.delete(Secret, "default/empty")
        await eventually(lambda: "empty" not in replica.fleet.owned)
        await replica.stop()


async def test_a_secret_that_is_being_deleted_is_no_cluster(caplog: pytest.LogCaptureFixture) -> None:
    """A finalizer may keep the Secret for long; its cluster leaves at once."""
    caplog.set_level(logging.CRITICAL)
    async with World([], lambda _: KubeconfigSecrets(namespace="default")) as world:
        client = Cluster(world.management.config).uncached
        other = secret("kept", kubeconfig=kubeconfig("http://127.0.0.1:1"))
        other.metadata.finalizers = ["example.com/kept"]
        await client.create(other)
        await client.create(secret("other", kubeconfig=kubeconfig("http://127.0.0.1:1")))
        (replica,) = world.start("a")
        await asyncio.sleep(1)
        await eventually(lambda: replica.fleet.owned == {"kept", "other"})
        await client.delete(Secret, "default/kept")
        await eventually(lambda: replica.fleet.owned == {"other"})
        assert (await client.get(Secret, "default/kept")).metadata.deletion_timestamp is not None
        await replica.stop()


async def test_a_wrong_ca_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A server whose certificate another CA signed gets a condition with the reason, until its CA is right."""
    caplog.set_level(logging.CRITICAL)
    async with World([]) as world, environment.Environment() as served, environment.Environment() as other:
        right = config_from_text(served.kubeconfig(await served.serve()), source="right")
        wrong = config_from_text(other.kubeconfig(await other.serve()), source="wrong")
        world.static.join("tls", msgspec.structs.replace(right, ca_data=wrong.ca_data))
        (replica,) = world.start("a")
        await asyncio.sleep(1)

        def reason() -> str:
            condition = replica.fleet.conditions().get("tls")
            return condition.reason if condition is not None else ""

        await eventually(lambda: reason() == "InvalidCertificate")
        world.static.join("tls", right)
        await eventually(lambda: reason() == "Connected", within=60)
        await replica.stop()


async def test_a_directory_of_kubeconfigs_describes_clusters(tmp_path: Path) -> None:
    """Files join, change and leave while the fleet runs."""
    provider = KubeconfigDirectory(tmp_path / "clusters", interval=1.0)
    changes: list[dict[str, str]] = []
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        task = asyncio.create_task(
            provider.start(
                cluster,
                lambda clusters: changes.append(
                    {name: entry.config.host if entry.config else entry.problem for name, entry in clusters.items()}
                ),
            )
        )
        await asyncio.sleep(1.5)
        assert changes == [{}]
        (tmp_path / "clusters").mkdir()
        (tmp_path / "clusters" / "eu.kubeconfig").write_bytes(kubeconfig("https://eu"))
        (tmp_path / "clusters" / ".hidden.yaml").write_bytes(b"{")
        await asyncio.sleep(1.5)
        (tmp_path / "clusters" / "us.yaml").write_bytes(b"{")
        await asyncio.sleep(1.5)
        (tmp_path / "clusters" / "us.conf").write_bytes(kubeconfig("https://us"))
        await asyncio.sleep(1.5)
        (tmp_path / "clusters" / "us.yaml").unlink()
        (tmp_path / "clusters" / "eu.kubeconfig").unlink()
        await asyncio.sleep(3.5)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert [sorted(change) for change in changes] == [[], ["eu"], ["eu", "us"], ["eu", "us"], ["us"]]
    assert "not valid YAML" in changes[2]["us"]
    assert "several files" in changes[3]["us"]
    assert changes[4] == {"us": "https://us"}


async def test_what_cannot_work_is_refused() -> None:
    """A fleet without reconcilers, unknown keywords, and a controller without a name."""
    operator = Operator("x", OPTIONS)
    fleet = Fleet(operator, StaticClusters())
    with pytest.raises(UsageError, match="needs a name"):
        fleet.reconciler()
    with pytest.raises(UsageError, match="does not take"):
        fleet.reconciler(ConfigMap, nothing=1)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="not started"):
        _ = fleet.owned
    with pytest.raises(UsageError, match="nothing to run"):
        operator.prepare(RestConfig(host="http://127.0.0.1:1"))
    with pytest.raises(UsageError, match="needs a name"):
        StaticClusters().join("", RestConfig())


async def test_a_directory_names_the_files_that_are_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A directory provider warns once for each new set of ignored files, and once for a missing directory."""
    folder = tmp_path / "clusters"
    provider = KubeconfigDirectory(folder, interval=1.0)
    changes: list[list[str]] = []
    async with environment.Environment() as env, Cluster(env.config) as cluster:
        task = asyncio.create_task(provider.start(cluster, lambda clusters: changes.append(sorted(clusters))))
        await asyncio.sleep(2.5)
        folder.mkdir()
        (folder / ".hidden").write_bytes(b"")
        (folder / "eu").write_bytes(kubeconfig("https://eu"))
        (folder / "us.kube").write_bytes(kubeconfig("https://us"))
        await asyncio.sleep(3.5)
        for n in range(12):
            (folder / f"more-{n:02}.json").write_bytes(b"")
        await asyncio.sleep(2.5)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert changes == [[]]
    missing, two, many = [r.getMessage() for r in caplog.records if r.name == "opsdk.fleet.provider"]
    assert missing == f"{folder} does not exist: the fleet has no clusters of this directory"
    assert two.endswith("left out: eu, us.kube: the name of a kubeconfig ends in .kubeconfig, .yaml, .yml, .conf")
    assert "more-07.json" not in two
    assert " and 4 more: " in many
