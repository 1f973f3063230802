"""The reviews at the start: what is missing is named at once, and a server that does not review stops nothing."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rbac_operator import install, rbac_server, service_account, until

from envtest.testing.effects import Delay, Fail
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.api.rbac.v1 import ClusterRoleBinding
from opsdk.builder.flags import parse_flags
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.cache.options import CacheOptions
from opsdk.client.scheme import default_scheme
from opsdk.cluster.cluster import Cluster, ClusterOptions
from opsdk.errors import ForbiddenError, MissingPermissionsError
from opsdk.event.request import Request
from opsdk.rbac.check import RbacCheck
from opsdk.rbac.manifests import RbacNames
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.rbac.review import PermissionReviewer, describe_missing
from opsdk.rbac.rules import RbacRule
from opsdk.rest.config import RestConfig
from opsdk.rest.transport import Transport
from opsdk.testing.loop import VirtualLoop
from opsdk.testing.running import running
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.options import WebhookServerOptions

NAMES = RbacNames(name="x", namespace="system")
REVIEWS = "selfsubjectaccessreviews"


def operator_with(check: RbacCheck, *rules: RbacRule, namespaces: tuple[str, ...] = ()) -> Operator:
    """An operator that reconciles ConfigMaps and declares more."""
    cluster = ClusterOptions(cache=CacheOptions(namespaces=namespaces))
    operator = Operator("x", OperatorOptions(rbac_check=check, cluster=cluster))
    operator.rbac(*rules)

    @operator.reconciler(ConfigMap)
    async def reconcile(request: Request) -> None:
        """Does nothing."""

    return operator


async def missing(config: RestConfig, rules: RuleSet) -> RuleSet:
    """What the user of a configuration lacks."""
    async with Transport(config) as transport:
        return await PermissionReviewer(transport, default_scheme()).missing(rules)


permissions = st.builds(
    Permission,
    st.sampled_from(("get", "list", "*")),
    st.sampled_from(("", "apps")),
    st.sampled_from(("pods", "pods/log", "*/log", "*")),
    st.sampled_from(("", "a")),
    st.sampled_from(("", "default", "x")),
    st.just(""),
) | st.builds(lambda path: Permission("get", path=path), st.sampled_from(("/metrics", "/a/b")))
rule_sets = st.lists(permissions, max_size=6).map(RuleSet)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(rule_sets, rule_sets)
def test_a_review_agrees_with_coverage(granted: RuleSet, required: RuleSet) -> None:
    """The server's reviews miss exactly the permissions that the granted rules do not cover."""

    async def compare() -> None:
        async with rbac_server() as (env, client):
            await install(client, granted, NAMES)
            lacking = await missing(await service_account(env, client, NAMES), required)
        assert lacking == required - granted

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(compare())


async def test_everything_missing_is_named_at_once() -> None:
    """One error has every missing permission with its use and the role that should grant it."""
    operator = operator_with(RbacCheck.ERROR, RbacRule("get", Secret, namespaces=["shop"]), RbacRule("list", "nodes"))
    async with rbac_server() as (env, client):
        await install(client, RuleSet([Permission("get", "", "configmaps")]), NAMES)
        with pytest.raises(MissingPermissionsError) as raised:
            async with running(operator, await service_account(env, client, NAMES)):
                pass
    assert str(raised.value) == (
        "missing RBAC permissions: list configmaps, watch configmaps, list nodes (add them to ClusterRole x); "
        "get secrets in namespace shop (add it to Role x in namespace shop)"
    )
    assert len(raised.value.missing) == 4


async def test_permissions_are_reviewed_before_certificates_need_them() -> None:
    """An operator with webhooks names every missing permission, not only the first one of its certificates."""
    operator = operator_with(RbacCheck.ERROR)
    certificates = SelfSigned(service="x")
    operator.options = replace(operator.options, webhook=WebhookServerOptions(port=0, certificates=certificates))
    operator.webhook_for(ConfigMap).with_defaulter(lambda obj, ctx: None)
    async with rbac_server() as (env, client):
        await install(client, RuleSet(), NAMES)
        config = await service_account(env, client, NAMES)
        with pytest.raises(MissingPermissionsError) as error:
            async with running(operator, config):
                pass
    assert any("secrets" in text for text in error.value.missing)
    assert any("configmaps" in text for text in error.value.missing)


async def test_the_own_namespace_has_lease_and_certificate() -> None:
    """--namespace sets the namespace of the Lease and the Secret, and an error names it and the flag."""
    operator = operator_with(RbacCheck.OFF)
    certificates = SelfSigned(service="x")
    webhook = WebhookServerOptions(port=0, certificates=certificates)
    options = replace(operator.options, webhook=webhook, leader_election=True)
    operator.options, _ = parse_flags("x", options, ["--namespace", "system"], {})
    operator.webhook_for(ConfigMap).with_defaulter(lambda obj, ctx: None)
    rules = operator.rules()
    own = {p.namespace for p in rules if p.resource in ("secrets", "leases")}
    assert own == {"system"}
    async with rbac_server() as (env, client):
        await install(client, RuleSet(p for p in rules if p.resource != "secrets"), NAMES)
        config = await service_account(env, client, NAMES)
        with pytest.raises(ForbiddenError, match=r"x-tls is in the namespace system \(--namespace\): run with"):
            async with running(operator, config):
                pass


async def test_a_warning_does_not_wait(caplog: pytest.LogCaptureFixture) -> None:
    """By default missing permissions are logged once, and the operator is ready before the review ends."""
    operator = operator_with(RbacCheck.WARN, RbacRule("get", Secret))
    async with rbac_server() as (env, client):
        await install(client, RuleSet(Permission(v, "", "configmaps") for v in ("get", "list", "watch")), NAMES)
        env.faults.add(Delay(5), resource=REVIEWS)
        async with running(operator, await service_account(env, client, NAMES)):
            assert not [r for r in caplog.records if "missing RBAC" in r.message]

            async def is_logged() -> bool:
                return any("missing RBAC permissions: get secrets (add it" in r.message for r in caplog.records)

            await until(is_logged)
    assert OperatorOptions().rbac_check is RbacCheck.WARN


async def test_off_sends_nothing() -> None:
    """Without the check no review is sent."""
    operator = operator_with(RbacCheck.OFF)
    async with rbac_server() as (env, _):
        async with running(operator, env):
            await asyncio.sleep(5)
        assert env.audit.select(verb="watch", resource="configmaps")
        assert not env.audit.select(resource=REVIEWS)


@pytest.mark.parametrize("code", [403, 404, 405, 500, 503])
async def test_a_server_without_reviews_stops_nothing(code: int, caplog: pytest.LogCaptureFixture) -> None:
    """The operator starts, also in mode ERROR, and one line says why the rules were not checked."""
    operator = operator_with(RbacCheck.ERROR)
    async with rbac_server() as (env, _):
        env.faults.add(Fail(code), resource=REVIEWS)
        async with running(operator, env):
            pass
    (line,) = [r for r in caplog.records if "cannot be checked" in r.message]
    assert str(code) in line.message


async def test_a_server_that_does_not_answer_delays_the_start_a_little() -> None:
    """Mode ERROR waits for the reviews, but not longer than its timeout."""
    operator = operator_with(RbacCheck.ERROR)
    async with rbac_server() as (env, _):
        env.faults.add(Delay(1000), resource=REVIEWS)
        began = asyncio.get_running_loop().time()
        async with running(operator, env):
            assert 15 <= asyncio.get_running_loop().time() - began < 20


async def test_many_permissions_of_a_namespace_are_one_request() -> None:
    """A rules review covers a namespace; access reviews are sent only for what it does not cover, and everywhere."""
    rules = RuleSet(Permission(verb, "", "secrets", namespace="shop") for verb in ("get", "list", "watch", "patch"))
    async with rbac_server() as (env, client):
        await install(client, rules, NAMES)
        config = await service_account(env, client, NAMES)
        everywhere = [Permission(verb, "", "pods") for verb in ("get", "list")]
        lacking = RuleSet([*everywhere, Permission("delete", "", "secrets", namespace="shop")])
        assert await missing(config, rules | lacking) == lacking
        assert len(env.audit.select(resource="selfsubjectrulesreviews")) == 1
        assert len(env.audit.select(resource=REVIEWS)) == 3


async def test_an_administrator_lacks_nothing() -> None:
    """Permissions that no role grants count too: the server decides, not a comparison of roles."""
    async with rbac_server() as (env, _):
        here = [Permission(verb, "", "secrets", namespace="default") for verb in ("get", "list")]
        assert not await missing(env.config, RuleSet([Permission("*", "*", "*"), Permission("get", path="/x"), *here]))


async def test_without_rules_reviews_each_permission_is_reviewed() -> None:
    """A server that refuses rules reviews still answers access reviews."""
    rules = RuleSet(Permission(verb, "", "secrets", namespace="shop") for verb in ("get", "list"))
    async with rbac_server() as (env, client):
        await install(client, rules, NAMES)
        env.faults.add(Fail(403), resource="selfsubjectrulesreviews")
        lacking = RuleSet([Permission("watch", "", "secrets", namespace="shop")])
        assert await missing(await service_account(env, client, NAMES), rules | lacking) == lacking
        assert len(env.audit.select(resource=REVIEWS, code=201)) == 3


async def test_a_lost_permission_is_noticed_at_the_next_start() -> None:
    """The binding is deleted: the next start fails, and so do the requests."""
    operator = operator_with(RbacCheck.ERROR)
    async with rbac_server() as (env, client):
        await install(client, operator.rules(), NAMES)
        config = await service_account(env, client, NAMES)
        assert not await missing(config, operator.rules())
        await client.delete(ClusterRoleBinding, "x")
        assert await missing(config, operator.rules()) == operator.rules()
        async with Cluster(config) as cluster:
            with pytest.raises(ForbiddenError):
                await cluster.uncached.list(ConfigMap)


def test_the_message_says_which_role() -> None:
    """Permissions of a namespace belong into its Role, all others into the ClusterRole."""
    lacking = RuleSet([Permission("get", path="/metrics"), Permission("get", "", "pods", "a", "x")])
    assert describe_missing(lacking, "op") == (
        'missing RBAC permissions: get /metrics (add it to ClusterRole op); get pods named "a" in namespace x '
        "(add it to Role op in namespace x)"
    )
