"""Admission policies of an operator on a local API server: what they decide, and how they are followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import field

import envtest
from envtest.environment import Environment
from opsdk import Client, Cluster, Context, GroupVersionKind, Model, Object, ObjectMeta, Operator, OperatorOptions
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.builder.deployed import field_manager
from opsdk.cache.options import CacheOptions
from opsdk.children.ownership import managers_of
from opsdk.cluster.options import ClusterOptions
from opsdk.engine.policies import apply_policies
from opsdk.errors import InvalidError
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import RuleSet
from opsdk.telemetry.records import RegisteredFaults
from opsdk.testing.definitions import install_definitions
from opsdk.testing.running import running
from opsdk.webhook.policies import AdmissionRule, PolicyBinding, policy
from tests.webhook.certificate_world import RecordingHook

POLICY = unstructured_kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
BINDING = unstructured_kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding")
NAME = "stalls.stall-limit"
MESSAGE = "'at most ' + string(variables.most)"


class StallSpec(Model):
    """Fields that the policies read."""

    size: int = 1
    owner: str | None = None
    tags: list[str] = field(default_factory=list)


class Stall(Object[StallSpec, None]):
    """A kind."""

    gvk = GroupVersionKind("stalls.opsdk.dev", "v1", "Stall")


@policy(Stall)
class StallLimit:
    """Not too large."""

    rules = (AdmissionRule("object.spec.size <= 5", message="at most 5", field_path="spec.size"),)


def make_operator(*policies: type, options: OperatorOptions | None = None) -> Operator:
    """Return an operator with policies, and a controller that does nothing."""
    operator = Operator("stalls", options)

    @operator.reconciler(Stall)
    async def reconcile(stall: Stall, ctx: Context) -> None:
        """Do nothing."""

    operator.add_policy(*policies)
    return operator


def stall(name: str = "a", **spec: Any) -> Stall:
    """Return a new object."""
    return Stall(metadata=ObjectMeta(name=name, namespace="default"), spec=StallSpec(**spec))


# ------------------------------------------------------------------ decisions
async def test_a_rule_refuses_creates_and_updates(k8s_env: Environment, k8s_client: Client) -> None:
    """The error has the field and the message; objects within the bounds pass."""
    async with running(make_operator(StallLimit), k8s_env):
        with pytest.raises(InvalidError, match=r"denied request: spec\.size: at most 5"):
            await k8s_client.create(stall(size=6))
        created = await k8s_client.create(stall(size=5))
        created.spec.size = 6
        with pytest.raises(InvalidError, match="at most 5"):
            await k8s_client.update(created)


async def test_a_warning_lets_the_request_pass(
    k8s_env: Environment, k8s_client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets the message as a warning."""

    @policy(Stall)
    class Advice:
        rules = (AdmissionRule("has(object.spec.owner)", message_expression="object.metadata.name + ' has no owner'"),)
        bindings = (PolicyBinding(validation_actions=["Warn"]),)

    async with running(make_operator(Advice), k8s_env):
        await k8s_client.create(stall())
    assert "a has no owner" in caplog.text


async def test_mutations_run_in_order(k8s_env: Environment, k8s_client: Client) -> None:
    """An apply configuration and a JSON patch change the object before the rules see it."""

    @policy(Stall)
    class Owner:
        match_conditions = {"new": "!has(object.spec.owner)"}  # noqa: RUF012 - as users write it
        mutations = (
            "Object{spec: Object.spec{owner: request.userInfo.username == '' ? 'x' : 'somebody'}}",
            "[JSONPatch{op: 'add', path: '/spec/tags', value: ['owned']}]",
        )
        rules = (AdmissionRule("object.spec.owner == 'somebody'"),)

    async with running(make_operator(Owner, StallLimit), k8s_env):
        created = await k8s_client.create(stall())
        assert (created.spec.owner, created.spec.tags) == ("somebody", ["owned"])
        assert (await k8s_client.create(stall("b", owner="me"))).spec.tags == []


async def test_parameters_decide(k8s_env: Environment, k8s_client: Client) -> None:
    """A change of the parameter object changes the decision; without it, the request is refused."""

    @policy(Stall)
    class Limit:
        params = ConfigMap
        variables = {"most": "int(params.data.most)"}  # noqa: RUF012 - as users write it
        rules = (AdmissionRule("object.spec.size <= variables.most", message_expression=MESSAGE),)
        bindings = (PolicyBinding(param_name="stall-limit", param_namespace="default"),)

    async with running(make_operator(Limit), k8s_env):
        with pytest.raises(InvalidError, match="no params found"):
            await k8s_client.create(stall())
        meta = ObjectMeta(name="stall-limit", namespace="default")
        limit = await k8s_client.create(ConfigMap(metadata=meta, data={"most": "2"}))
        with pytest.raises(InvalidError, match="at most 2"):
            await k8s_client.create(stall(size=3))
        limit.data["most"] = "3"
        await k8s_client.update(limit)
        await k8s_client.create(stall(size=3))


async def test_the_server_takes_what_the_declaration_takes(k8s_env: Environment, k8s_client: Client) -> None:
    """Applied twice, the objects stay as they are: the server adds no value that the declaration lacks."""

    @policy(Stall)
    class All:
        rules = (AdmissionRule("true"),)
        mutations = ("Object{}",)
        audit_annotations = {"size": "string(object.spec.size)"}  # noqa: RUF012 - as users write it
        bindings = (PolicyBinding(), PolicyBinding(name="b", object_selector=None, validation_actions=["Audit"]))

    operator = make_operator(All)
    await install_definitions(k8s_client, operator.definitions())
    first = await apply_policies(k8s_client, operator, field_owner="a")
    again = await apply_policies(k8s_client, operator, field_owner="a")
    assert [to_dict(obj) for obj in first] == [to_dict(obj) for obj in again]
    for obj, declared in zip(first, operator.admission_policies(), strict=True):
        assert to_dict(obj)["spec"] == declared["spec"]


# ------------------------------------------------------------------ permissions
def test_the_role_is_limited_to_the_names() -> None:
    """A deleted binding is created again by an apply with its name; the operator works without these permissions."""
    operator = make_operator(StallLimit)
    rules = [each for each in operator.rules() - operator.required_rules() if "policies" in each.resource]
    bindings = [each for each in operator.rules() - operator.required_rules() if "bindings" in each.resource]
    assert {each.verb for each in rules} == {"get", "list", "watch"}
    assert {each.verb for each in bindings} == {"get", "list", "watch", "create", "patch"}
    assert {each.name for each in (*rules, *bindings)} == {NAME}


def test_a_restored_binding_needs_its_parameters() -> None:
    """The server lets only a user create a binding who may read them; without a name, that would be all of them."""

    @policy(Stall)
    class Limit:
        params = ConfigMap
        rules = (AdmissionRule("params.data.open == 'yes'"),)
        bindings = (
            PolicyBinding(name="a", param_name="limits", param_namespace="shop"),
            PolicyBinding(name="b", param_selector=LabelSelector(match_labels={"limits": "yes"})),
        )

    rules = make_operator(Limit).rules()
    assert [(each.name, each.namespace) for each in rules if each.resource == "configmaps"] == [("limits", "shop")]
    created = {each.name for each in rules if each.verb == "create" and "bindings" in each.resource}
    assert created == {"stalls.limit-a"}


def test_an_operator_of_some_namespaces_follows_no_policy() -> None:
    """It must be installable without a ClusterRole."""
    options = OperatorOptions(cluster=ClusterOptions(cache=CacheOptions(namespaces=["shop"])))
    operator = make_operator(StallLimit, options=options)
    assert operator.registered_policies() == []
    assert "admissionregistration" not in str(operator.rules())
    assert operator.admission_policies()


# ------------------------------------------------------------------ following
class Installation:
    """An operator that runs with its generated role, and an administrator."""

    def __init__(self, env: Any, operator: Operator, client: Client) -> None:
        self.env, self.operator, self.client, self.hook = env, operator, client, RecordingHook()

    async def binding(self) -> Unstructured | None:
        """Return the binding."""
        return await self.client.get_or_none(BINDING, NAME, uncached=True)

    async def change(self, kind: Any, **spec: Any) -> None:
        """Change fields of the policy or the binding."""
        obj = await self.client.get(kind, NAME, uncached=True)
        tree = to_dict(obj)
        tree["spec"] |= spec
        await self.client.update(Unstructured.from_tree(tree), field_owner="kubectl-edit")

    def faults(self) -> dict[str, int]:
        """Return the faults of each object in the metrics; all of them are not critical."""
        records = [record for record in self.hook.records if isinstance(record, RegisteredFaults)]
        assert not any(record.critical for record in records)
        return {object_: count for object_, count in {each.object: each.others for each in records}.items() if count}


@asynccontextmanager
async def installed(*policies: type, without: Iterable[str] = ()) -> AsyncIterator[Installation]:
    """An operator in a cluster, after `opsdk deploy` applied its policies; verbs for bindings may be missing."""
    async with envtest.Environment(hot_loop_limit=0) as env, Cluster(env.config) as admin:
        run = Installation(env, make_operator(*policies), admin.uncached)
        await install_definitions(run.client, run.operator.definitions())
        await apply_policies(run.client, run.operator, field_owner=field_manager("stalls"))
        rules = RuleSet(
            each
            for each in run.operator.rules(namespace="default")
            if "bindings" not in each.resource or each.verb not in without
        )
        for obj in manifests(rules, RbacNames(name="stalls")):
            await run.client.apply(obj, field_owner="kubectl")
        run.operator.add_hook(run.hook)
        user = env.add_user("system:serviceaccount:default:stalls")
        task = asyncio.create_task(run.operator.start(user.config))
        await asyncio.sleep(5)
        try:
            yield run
        finally:
            run.operator.manager.stop()
            await task


async def test_a_deleted_binding_is_created_again() -> None:
    """The rules hold again after some seconds, and the next deployment finds the binding as its own."""
    async with installed(StallLimit) as run:
        assert run.faults() == {}
        await run.client.delete(BINDING, NAME)
        await run.client.create(stall(size=9))
        await asyncio.sleep(5)
        assert await run.binding() is None
        assert run.faults() == {f"ValidatingAdmissionPolicyBinding {NAME}": 1}
        await asyncio.sleep(10)
        restored = await run.binding()
        assert restored is not None
        assert [entry.name for entry in managers_of(to_dict(restored))] == [field_manager("stalls")]
        with pytest.raises(InvalidError, match="at most 5"):
            await run.client.create(stall("b", size=9))
        assert run.faults() == {}


async def test_an_uninstalled_policy_stays_away() -> None:
    """Whichever of the two objects is deleted first, none of them comes back."""
    for first, second in ((BINDING, POLICY), (POLICY, BINDING)):
        async with installed(StallLimit) as run:
            await run.client.delete(first, NAME)
            await asyncio.sleep(5)
            await run.client.delete(second, NAME)
            await asyncio.sleep(1000)
            assert await run.binding() is None
            assert len(run.faults()) == 2


async def test_a_binding_of_another_version_stays_away() -> None:
    """If the policy is not as this version declares it, another version decides about its bindings."""
    async with installed(StallLimit) as run:
        await run.change(POLICY, failurePolicy="Ignore")
        await run.client.delete(BINDING, NAME)
        await asyncio.sleep(1000)
        assert await run.binding() is None


async def test_a_change_is_reported_and_stays(caplog: pytest.LogCaptureFixture) -> None:
    """An administrator who turns a rule into a warning wins; the report ends when the change does."""
    async with installed(StallLimit) as run:
        await run.change(BINDING, validationActions=["Warn"])
        await asyncio.sleep(60)
        assert run.faults() == {f"ValidatingAdmissionPolicyBinding {NAME}": 1}
        assert 'validationActions is ["Warn"], not ["Deny"]: apply the policies of this version' in caplog.text
        assert await run.operator.manager.readyz.failures() == {}
        await run.client.create(stall(size=9))
        await run.change(BINDING, validationActions=["Deny"])
        await asyncio.sleep(1)
        assert run.faults() == {}


async def test_without_the_permission_a_deletion_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """The message says that the role lacks it, and the operator works."""
    async with installed(StallLimit, without=["create"]) as run:
        await run.client.delete(BINDING, NAME)
        await asyncio.sleep(20)
        assert await run.binding() is None
        assert "was deleted, and cannot be created again" in caplog.text
        assert "opsdk generate rbac" in caplog.text
        assert await run.operator.manager.readyz.failures() == {}


async def test_a_policy_that_was_never_installed_is_reported() -> None:
    """An operator whose policies are missing says so, and runs."""
    async with envtest.Environment() as env:
        operator = make_operator(StallLimit)
        hook = RecordingHook()
        operator.add_hook(hook)
        async with Cluster(env.config) as admin:
            await install_definitions(admin.uncached, operator.definitions())
        task = asyncio.create_task(operator.start(env.config))
        await asyncio.sleep(5)
        operator.manager.stop()
        await task
        reported = {record.object for record in hook.records if isinstance(record, RegisteredFaults) and record.others}
        assert reported == {f"ValidatingAdmissionPolicy {NAME}", f"ValidatingAdmissionPolicyBinding {NAME}"}


async def test_a_fight_over_a_binding_gets_rarer() -> None:
    """A program that deletes the binding again and again is met ever more slowly."""
    async with installed(StallLimit) as run:
        restored = 0
        for _ in range(700):
            if await run.binding() is not None:
                restored += 1
                await run.client.delete(BINDING, NAME)
            await asyncio.sleep(1)
        assert 5 <= restored < 20
