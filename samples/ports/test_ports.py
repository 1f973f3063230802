"""The ports against the in-process API server with its controllers, in virtual time."""

from __future__ import annotations

import cluster_secret
import memcached
import tomcat
from cluster_secret import ClusterSecret, ClusterSecretSpec
from memcached import Memcached, MemcachedSpec
from tomcat import Tomcat, TomcatSpec, Webapp, WebappSpec

from envtest import Environment
from envtest.groups.core.rest.responders import Command
from opsdk import Client, Cluster, ObjectMeta
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import Namespace, Pod, Secret
from opsdk.apiserver.streams.pipe import Pipe
from opsdk.client.patch import merge_patch
from opsdk.testing.eventually import events_of, eventually
from opsdk.testing.rules import assert_rules, observed_rules
from opsdk.testing.running import running


async def test_memcached(k8s_env: Environment, k8s_client: Client) -> None:
    """A cache becomes a Deployment of its size, is available when that is, and says that it goes."""

    async def availability() -> str:
        live = await k8s_client.get(Memcached, "default/a")
        return next((each.status for each in live.status.conditions), "") if live.status else ""

    with observed_rules(memcached.operator) as observed:
        async with running(memcached.operator, k8s_env):
            meta = ObjectMeta(name="a", namespace="default")
            cache = await k8s_client.create(Memcached(metadata=meta, spec=MemcachedSpec(size=2)))
            live = await eventually(lambda: k8s_client.get(Deployment, "default/a"))
            assert live.spec.replicas == 2
            await eventually(availability, lambda status: status == "False")
            ready = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}
            await k8s_client.status().patch(live, merge_patch({"status": ready}))
            await eventually(availability, lambda status: status == "True")
            await k8s_client.patch(cache, merge_patch({"spec": {"size": 3}}))
            await eventually(lambda: k8s_client.get(Deployment, "default/a"), lambda live: live.spec.replicas == 3)
            await k8s_client.delete(cache)
            events = await eventually(lambda: events_of(k8s_client, cache), bool)
            assert [event.reason for event in events] == ["Deleting"]
    assert_rules(observed, memcached.operator.rules())


async def test_a_secret_is_in_each_selected_namespace(k8s_env: Environment, k8s_client: Client) -> None:
    """Also in one that comes later; not in one that the patterns no longer select; a changed copy is repaired."""
    for name in ("shop-1", "shop-2", "search"):
        await k8s_client.create(Namespace(metadata=ObjectMeta(name=name)))
    spec = ClusterSecretSpec(match_namespace=["shop-*"], avoid_namespaces=["*-0"], data={"password": b"one"})

    async def copies() -> dict[str, bytes]:
        live = await k8s_client.list(Secret)
        return {each.metadata.namespace: each.data["password"] for each in live if each.metadata.name == "login"}

    with observed_rules(cluster_secret.operator) as observed:
        async with running(cluster_secret.operator, k8s_env):
            secret = await k8s_client.create(ClusterSecret(metadata=ObjectMeta(name="login"), spec=spec))
            await eventually(copies, lambda found: found == {"shop-1": b"one", "shop-2": b"one"})
            for name in ("shop-3", "shop-0"):
                await k8s_client.create(Namespace(metadata=ObjectMeta(name=name)))
            await k8s_client.patch(Secret(metadata=ObjectMeta(name="login", namespace="shop-1")), BROKEN)
            await eventually(copies, lambda found: found == dict.fromkeys(("shop-1", "shop-2", "shop-3"), b"one"))
            await k8s_client.patch(secret, merge_patch({"spec": {"matchNamespace": ["search"]}}))
            await eventually(copies, lambda found: found == {"search": b"one"})
            live = await k8s_client.get(ClusterSecret, "login")
            assert live.status is not None
            assert live.status.synced_namespaces == ["search"]
    assert_rules(observed, cluster_secret.operator.rules())


BROKEN = merge_patch({"data": {"password": "dHdv"}})


class Downloads:
    """What the containers of the Pods ran; the first command fails."""

    def __init__(self) -> None:
        self.argv: list[tuple[str, ...]] = []

    async def run(self, command: Command, pipe: Pipe) -> int:
        self.argv.append(command.argv)
        if len(self.argv) == 1:
            await pipe.write_error("bad address")
            return 1
        return 0


async def test_an_application_is_in_each_server() -> None:
    """Also in the Pod that replaces one, after a download that failed; the file goes with the application."""
    downloads, operator = Downloads(), tomcat.operator
    fetch, remove = ("wget", "-O", "/data/shop.war", "http://files/shop.war"), ("rm", "-f", "/data/shop.war")
    with observed_rules(operator) as observed:
        async with Environment(controllers="cluster") as env, Cluster(env.config) as user, running(operator, env):
            client = user.uncached
            env.responders.run = downloads.run
            meta = ObjectMeta(name="web", namespace="default")
            await client.create(Tomcat(metadata=meta, spec=TomcatSpec(version=10, replicas=2)))
            spec = WebappSpec(tomcat="web", url="http://files/shop.war", context_path="shop")
            webapp = await client.create(Webapp(metadata=meta, spec=spec))

            async def deployed() -> set[str]:
                live = await client.get(Webapp, "default/web")
                return set(live.status.deployed if live.status else ())

            before = await eventually(deployed, lambda pods: len(pods) == 2, within=120)
            assert set(downloads.argv) == {fetch}
            pods = await client.list(Pod, namespace="default", label_selector="tomcat=web")
            await client.delete(next(iter(pods)))
            await eventually(deployed, lambda pods: len(pods) == 2 and pods != before, within=120)
            await client.delete(webapp)
            await eventually(lambda: downloads.argv[-2:] == [remove, remove])
    assert_rules(observed, operator.rules())
