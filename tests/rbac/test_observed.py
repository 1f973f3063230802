"""Requests become permissions, with the line that sent them, and are compared with what is declared."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from rbac_operator import rbac_server, until

import envtest
from opsdk.api.core.v1 import ConfigMap, Pod, Secret
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cache.options import CacheOptions
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.cluster.cluster import Cluster
from opsdk.cluster.options import ClusterOptions
from opsdk.controller.context import Context
from opsdk.errors import ForbiddenError, NotFoundError, RequestInfo
from opsdk.fleet import Fleet, KubeconfigSecrets
from opsdk.manager.options import ManagerOptions
from opsdk.rbac.manifests import RbacNames
from opsdk.rbac.observed import RuleRecorder
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.rbac.rules import RbacRule, reads, records_events
from opsdk.telemetry.records import Requested
from opsdk.testing.rules import RulesError, assert_rules, observed_manifests, observed_rules
from opsdk.testing.running import running
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.options import WebhookServerOptions

LINES = Path(__file__).read_text().splitlines()


def secret(name: str) -> Secret:
    """A Secret in the default namespace."""
    return Secret(metadata=ObjectMeta(name=name, namespace="default"))


def observed(*permissions: Permission) -> RuleRecorder:
    """A recorder that has seen these requests."""
    recorder = RuleRecorder()
    for p in permissions:
        resource, _, subresource = p.resource.partition("/")
        info = RequestInfo(
            verb=p.verb,
            group=p.group,
            resource=resource,
            subresource=subresource,
            namespace=p.namespace,
            name=p.name,
            path=p.path,
        )
        recorder.record(Requested(method="GET", host="x", status=200, seconds=0.0, request=info))
    return recorder


def rules(*declared: RbacRule) -> RuleSet:
    """What rules grant in all namespaces."""
    return RuleSet(permission for rule in declared for permission in rule.permissions())


async def test_each_call_is_recorded_as_the_server_authorizes_it() -> None:
    """Verb, resource, subresource and namespace are those of the server's own record, for every call of the client."""
    recorder = RuleRecorder()
    async with envtest.Environment() as env, Cluster(env.config, hook=recorder) as cluster:
        client = cluster.uncached
        await client.create(secret("a"))
        await client.apply(secret("b"), field_owner="x")
        await client.apply(secret("b"), field_owner="x")
        await client.update(await client.get(Secret, "default/a"))
        await client.patch(secret("a"), merge_patch({"data": {}}))
        await client.list(Secret)
        await client.list(Secret, namespace="default")
        with pytest.raises(NotFoundError):
            await client.status().patch(Pod(metadata=ObjectMeta(name="p", namespace="default")), merge_patch({}))
        await client.delete(Secret, "default/a")
        await client.delete_all_of(Secret, namespace="default")
        used = env.observed_rbac().of("admin").allowed
    assert {(u.verb, u.group, u.resource, u.namespace) for u in used if u.resource} == {
        (r.permission.verb, r.permission.group, r.permission.resource, r.permission.namespace)
        for r in recorder.requests
    }
    assert len(recorder.rules()) == 8


async def test_a_request_has_the_line_that_sent_it() -> None:
    """The innermost line of the user's own code is named; a request of an informer has none."""
    operator = Operator("x")
    recorded: list[str] = []

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap, ctx: Context) -> None:
        await read_secret(ctx.client)
        recorded.append(config.metadata.name)

    with observed_rules(operator) as recorder:
        async with envtest.Environment() as env, running(operator, env):
            await operator.cluster.uncached.create(secret("a"))
            await operator.cluster.uncached.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="default")))

            async def is_reconciled() -> bool:
                return "c" in recorded

            await until(is_reconciled)
    callers = {(r.permission.verb, r.permission.resource): r.caller for r in recorder.requests}
    assert re.search(r"test_observed\.py:\d+$", callers["get", "secrets"])
    assert "uncached=True" in LINES[int(callers["get", "secrets"].rpartition(":")[2]) - 1]
    assert callers["watch", "configmaps"] == ""


async def read_secret(client: Client) -> None:
    """A read that no declaration shows."""
    await client.get(Secret, "default/a", uncached=True)


async def test_code_that_needs_more_than_is_declared_fails_the_test() -> None:
    """The error names each request that is not declared, and where it was sent; declared ones are not named."""
    operator = Operator("x")
    operator.rbac(reads(ConfigMap))

    @operator.setup
    def nothing(operator: Operator) -> None:
        """Setup functions may declare nothing."""

    with observed_rules(operator) as recorder:
        async with envtest.Environment() as env, running(operator, env):
            await operator.client.list(ConfigMap)
            await operator.cluster.uncached.create(secret("a"))
            await read_secret(operator.cluster.uncached)
    with pytest.raises(RulesError) as raised:
        assert_rules(recorder, operator.rules())
    create, get = str(raised.value).splitlines()
    assert re.fullmatch(r"not declared: create secrets in namespace default \(.*test_observed\.py:\d+\)", create)
    assert re.match(r'not declared: get secrets named "a" in namespace default \(', get)


def test_what_no_request_used_is_reported_on_demand() -> None:
    """Unused permissions are an error only if the caller says so; what no test can show is never reported."""
    unseen = rules(RbacRule("update", Pod, subresource="finalizers"), records_events())
    recorder = observed(Permission("create", "events.k8s.io", "events"), Permission("list", "", "pods"))
    declared = unseen | rules(RbacRule("list delete", Pod))
    assert_rules(recorder, declared)
    with pytest.raises(RulesError, match=r"^declared but not used: delete pods$"):
        assert_rules(recorder, declared, unused=True)


async def test_a_rule_that_opsdk_declares_is_never_unused() -> None:
    """Finalizers, election, metrics, certificates and a fleet imply rules; only the operator's own rule is reported."""
    webhook = WebhookServerOptions(port=0, certificates=SelfSigned(service="x"))
    manager = ManagerOptions(metrics_bind_address="127.0.0.1:0", metrics_authentication=True)
    operator = Operator("x", OperatorOptions(leader_election=True, webhook=webhook, manager=manager))
    Fleet(operator, KubeconfigSecrets(namespace="clusters"))

    async def clean_up(config: ConfigMap, ctx: Context) -> None:
        """Do nothing."""

    @operator.reconciler(ConfigMap, owns=[Secret], finalizers={"a.example.com/b": clean_up}, rbac=[reads(Pod)])
    async def reconcile(config: ConfigMap) -> None:
        """Do nothing."""

    operator.webhook_for(ConfigMap).with_defaulter(lambda obj, ctx: None)
    with observed_rules(operator) as recorder:
        pass
    assert len(operator.implied_rules()) > 10
    with pytest.raises(RulesError) as error:
        assert_rules(recorder, operator.rules(), unused=True)
    assert str(error.value).splitlines() == [f"declared but not used: {verb} pods" for verb in ("get", "list", "watch")]


async def test_an_informer_needs_all_three_verbs() -> None:
    """A streaming list sends only a watch, but another server makes the informer list; a user's watch is a watch."""
    recorder = RuleRecorder()
    options = ClusterOptions(cache=CacheOptions(watch_list=True))
    async with (
        envtest.Environment() as env,
        Cluster(env.config, options, hook=recorder) as cluster,
        asyncio.TaskGroup() as tasks,
    ):
        running_cluster = tasks.create_task(cluster.start())
        await cluster.wait_ready()
        await cluster.client.list(ConfigMap)
        async with cluster.uncached.watch(Secret):
            running_cluster.cancel()
    assert {(r.permission.verb, r.permission.resource) for r in recorder.requests} == {
        ("watch", "configmaps"),
        ("watch", "secrets"),
    }
    assert recorder.rules() == rules(reads(ConfigMap), RbacRule("watch", Secret))


async def test_a_cached_read_names_its_controller() -> None:
    """The first cached read of a kind starts an informer; its requests name the controller of the reconcile."""
    operator = Operator("x")

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap, ctx: Context) -> None:
        await ctx.client.list(Secret)

    with observed_rules(operator) as recorder:
        async with envtest.Environment() as env, running(operator, env), Cluster(env.config) as user:
            await user.uncached.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="default")))

            async def is_read() -> bool:
                return "secrets" in str(recorder.rules())

            await until(is_read)
    with pytest.raises(RulesError) as raised:
        assert_rules(recorder, operator.rules())
    assert str(raised.value).splitlines() == [
        f"not declared: {verb} secrets (from a reconcile of controller configmap)" for verb in ("get", "list", "watch")
    ]


def test_names_are_kept_only_where_they_are_declared() -> None:
    """The name of an object in a test is an accident, unless the declaration names it too."""
    request = Permission("get", "", "secrets", "token", "default")
    assert observed(request).rules() == RuleSet([Permission("get", "", "secrets")])
    declared = rules(RbacRule("get", Secret, resource_names=["token"], namespaces=["default"]))
    assert observed(request).rules(declared) == declared
    both = declared | rules(RbacRule("get", Secret))
    assert observed(request).rules(both).normalized() == RuleSet([request])
    eviction = Permission("create", "", "pods/eviction", "p", "default")  # a POST whose path has the name
    by_name = RuleSet([eviction])
    assert observed(eviction).rules(by_name) == by_name


def test_namespaces_are_kept_by_operators_of_namespaces() -> None:
    """A request in a namespace is generalised to all of them, unless everything that is declared has a namespace."""
    request = Permission("delete", "", "secrets", "a", "shop")
    assert observed(request).rules(rules(reads(Pod))) == RuleSet([Permission("delete", "", "secrets")])
    namespaced = rules(reads(Pod, namespaces=["shop"]))
    assert observed(request).rules(namespaced) == RuleSet([Permission("delete", "", "secrets", namespace="shop")])


def test_what_everyone_may_do_is_left_out() -> None:
    """Discovery and reviews of oneself need no role."""
    reviews = Permission("create", "authorization.k8s.io", "selfsubjectaccessreviews")
    recorder = observed(Permission("get", path="/apis"), reviews, Permission("get", path="/metrics"))
    assert recorder.rules() == RuleSet([Permission("get", path="/metrics")])


async def test_a_forbidden_request_is_marked() -> None:
    """A request that the server refused is listed as forbidden, with its line."""
    recorder = RuleRecorder()
    async with rbac_server() as (env, _):
        user = env.add_user("bob")
        async with Cluster(user.config, hook=recorder) as cluster:
            with pytest.raises(ForbiddenError):
                await cluster.uncached.list(Secret)
    (request,) = recorder.forbidden
    assert re.fullmatch(r"list secrets \[forbidden\] \(.*test_observed\.py:\d+\)", str(request))


async def test_the_election_is_observed() -> None:
    """Requests of the leader election are recorded, although they use connections of their own."""
    operator = Operator("x", OperatorOptions(leader_election=True))

    @operator.reconciler(ConfigMap)
    async def reconcile(config: ConfigMap) -> None:
        """Does nothing."""

    with observed_rules(operator) as recorder:
        async with envtest.Environment() as env, running(operator, env):
            await operator.manager.wait_elected()
    text = observed_manifests(recorder, RbacNames(name="x"), operator.rules())
    assert "leases" in text
    verbs = {r.permission.verb for r in recorder.requests if r.permission.resource == "leases"}
    assert verbs == {"get", "create", "update"}


def test_many_names_become_one_request_for_every_name() -> None:
    """A recorder of 5,000 names keeps 1,000 of them, and the rules stay the same."""
    names = [Permission("get", "", "secrets", f"s{number}", "default") for number in range(5000)]
    recorder = observed(*names)
    assert len(recorder.requests) <= 1001
    assert recorder.rules() == observed(names[0]).rules()
