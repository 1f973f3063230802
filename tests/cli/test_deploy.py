"""``opsdk deploy`` and ``opsdk undeploy`` against an API server with RBAC and simulated kubelets, in virtual time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from http_servers import make_ca
from rbac_operator import rbac_server, service_account

import envtest
from envtest.controllers.stages import DEFAULT_STAGES, Stage, State
from opsdk import Client, Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Namespace, ResourceQuota, ResourceQuotaSpec, Service, ServiceAccount
from opsdk.api.rbac.v1 import ClusterRole, PolicyRule
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.quantity import Quantity
from opsdk.cli.deploy.apply import Deployer
from opsdk.cli.deploy.command import deployer_roles
from opsdk.cli.deploy.diagnosis import deployment_problems
from opsdk.cli.deploy.remove import Remover
from opsdk.cli.deploy.steps import DeployAction, DeployStep
from opsdk.cli.package.inputs import PackageInputs, inputs_of
from opsdk.cli.package.tree import installed_objects
from opsdk.cli.project import Project
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConflictError, DeadlineError, InvalidError, MissingPermissionsError, UsageError
from opsdk.rbac.manifests import RbacNames
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.rbac.rules import applies
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.eventually import eventually
from opsdk.testing.running import running
from opsdk.webhook.handlers import AdmissionContext
from opsdk.webhook.policies import AdmissionRule, PolicyBinding, policy

NAMESPACE = "berth-system"


class BerthSpec(Model):
    """A size."""

    size: int = 1


class Berth(Object[BerthSpec, None]):
    """A kind."""

    gvk = GroupVersionKind("deploy.opsdk.dev", "v1", "Berth")


@policy(Berth)
class BerthLimit:
    """A policy with parameters, which the deploying user must be able to read."""

    params = ConfigMap
    rules = (AdmissionRule("object.spec.size <= int(params.data.most)", message="too large"),)
    bindings = (PolicyBinding(param_name="limit", param_namespace="default", parameter_not_found_action="Allow"),)


def make_operator(*, webhooks: bool = False, policies: Sequence[type] = (BerthLimit,)) -> Operator:
    """Return an operator with a kind, a child, a finalizer, policies, and a webhook on request."""
    operator = Operator("berth")
    operator.add_policy(*policies)

    async def leave(berth: Berth, ctx: Context) -> None:
        """Do nothing."""

    @operator.reconciler(Berth, owns=[ConfigMap], rbac=[applies(ConfigMap)], finalizers={"opsdk.dev/leave": leave})
    async def reconcile(berth: Berth, ctx: Context) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=berth.metadata.name)))

    def validate(berth: Berth, ctx: AdmissionContext) -> Sequence[str]:
        return []

    if webhooks:
        operator.webhook_for(Berth).with_validator(create=validate)
    return operator


def inputs(
    *, image: str = "berth:1", webhooks: bool = False, policies: Sequence[type] = (BerthLimit,)
) -> PackageInputs:
    """Return what `package_inputs` returns for a project with this operator."""
    project = Project(folder=Path(), name="berth", operator="berth.operator:make_operator", namespace=NAMESPACE)
    return inputs_of(project, make_operator(webhooks=webhooks, policies=policies), image=image)


def objects_of(parts: PackageInputs) -> list[JsonObject]:
    """Return the objects in the order in which they are applied."""
    files = installed_objects(parts.workload, parts.definitions, parts.rbac, parts.configurations, parts.policies)
    return [tree for objects in files.values() for tree in objects]


class Tool:
    """Runs deploy and undeploy as one user, and keeps the steps of the last run."""

    def __init__(self, config: RestConfig) -> None:
        self.config = config
        self.steps: list[DeployStep] = []
        self.lines: list[str] = []

    async def deploy(self, parts: PackageInputs, *, within: float = 60.0, **options: bool) -> list[str]:
        """Deploy, and return the problems."""
        self.steps = []
        async with Cluster(self.config) as cluster:
            deployer = Deployer(
                cluster, "berth", report=self.steps.append, progress=self.lines.append, timeout=within, **options
            )
            return await deployer.deploy(objects_of(parts), parts.rules)

    async def undeploy(self, parts: PackageInputs, *, within: float = 60.0, **options: bool) -> None:
        """Remove everything."""
        self.steps = []
        async with Cluster(self.config) as cluster:
            remover = Remover(cluster, "berth", report=self.steps.append, timeout=within, **options)
            await remover.undeploy(objects_of(parts))

    def actions(self) -> set[DeployAction]:
        """Return the actions of the last run."""
        return {step.action for step in self.steps}


@asynccontextmanager
async def cluster_with(**options: object) -> AsyncIterator[tuple[envtest.Environment, Client, Tool]]:
    """A server with RBAC and controllers, the client of its admin, and the tool as the admin."""
    async with rbac_server(**options) as (env, admin):
        yield env, admin, Tool(env.config)


async def grant(admin: Client, parts: PackageInputs, without: Permission | None = None) -> RbacNames:
    """Create exactly the roles that ``--print-role`` prints, but one permission. Return their names."""
    for obj in deployer_roles(parts):
        if without is not None and hasattr(obj, "rules"):
            namespace = obj.metadata.namespace
            rules = RuleSet.from_policy_rules(obj.rules, namespace)
            assert rules.covers(without) is (namespace == without.namespace)
            obj.rules = RuleSet(p for p in rules if p != without).policy_rules(namespace)
        await admin.create(obj)
    return RbacNames(name="berth-deployer", namespace=NAMESPACE)


async def test_a_service_account_with_the_printed_role_deploys_and_undeploys() -> None:
    """The printed roles suffice for a first and a second deployment, a new image, and the removal."""
    async with cluster_with() as (env, admin, _):
        tool = Tool(await service_account(env, admin, await grant(admin, inputs())))
        assert await tool.deploy(inputs()) == []
        assert [str(step) for step in tool.steps[:2]] == [
            "created CustomResourceDefinition berths.deploy.opsdk.dev",
            f"kept Namespace {NAMESPACE}: it exists already",
        ]
        assert {step.action for step in tool.steps[2:]} == {DeployAction.CREATED}
        assert (await admin.get(Deployment, f"{NAMESPACE}/berth")).status.available_replicas == 2
        assert await tool.deploy(inputs()) == []
        assert tool.actions() == {DeployAction.UNCHANGED, DeployAction.KEPT}
        assert await tool.deploy(inputs(image="berth:2")) == []
        (changed,) = [step for step in tool.steps if step.action is DeployAction.CHANGED]
        assert changed.changes == ('spec.template.spec.containers.0.image: "berth:1" -> "berth:2"',)
        await admin.create(Berth(metadata=ObjectMeta(name="a", namespace="default"), spec=BerthSpec()))
        await tool.undeploy(inputs(), delete_objects=True)
        assert tool.actions() == {DeployAction.DELETED, DeployAction.KEPT}
        assert tool.steps[1].subject == "Berth default/a"
        for tree in objects_of(inputs()):
            if tree["kind"] != "Namespace":
                kind = unstructured_kind(tree["apiVersion"], tree["kind"])
                meta = tree["metadata"]
                assert await admin.get_or_none(kind, meta["name"], namespace=meta.get("namespace", "")) is None


@pytest.mark.parametrize(
    "lacking",
    [
        Permission("patch", "apiextensions.k8s.io", "customresourcedefinitions", "berths.deploy.opsdk.dev"),
        Permission("create", "apps", "deployments", "berth", NAMESPACE),
        Permission("escalate", "rbac.authorization.k8s.io", "clusterroles", "berth"),
        Permission("bind", "rbac.authorization.k8s.io", "roles", "berth", NAMESPACE),
        Permission("get", "", "configmaps"),
    ],
    ids=lambda permission: f"{permission.verb} {permission.resource}",
)
async def test_a_missing_rule_is_named_before_the_first_write(lacking: Permission) -> None:
    """Without one of the printed rules, the error names this rule and its role, and nothing is written."""
    async with cluster_with() as (env, admin, _):
        tool = Tool(await service_account(env, admin, await grant(admin, inputs(), without=lacking)))
        role = "Role" if lacking.namespace else "ClusterRole"
        with pytest.raises(MissingPermissionsError, match=f"{role} berth-deployer") as caught:
            await tool.deploy(inputs())
        assert caught.value.missing == (str(lacking),)
        assert tool.steps == []


async def test_a_deployed_policy_decides_until_it_is_removed() -> None:
    """The next deployment replaces a policy of another name, and the removal deletes what is left."""
    renamed = policy(Berth, name="renamed")(type("Renamed", (), {"rules": [AdmissionRule("object.spec.size != 7")]}))
    async with cluster_with() as (_, admin, tool):
        await tool.deploy(inputs())
        await admin.create(ConfigMap(metadata=ObjectMeta(name="limit", namespace="default"), data={"most": "3"}))
        berth = Berth(metadata=ObjectMeta(name="a", namespace="default"), spec=BerthSpec(size=7))
        with pytest.raises(InvalidError, match="too large"):
            await admin.create(berth)
        await tool.deploy(inputs(policies=[renamed]))
        deleted = [step.subject for step in tool.steps if step.action is DeployAction.DELETED]
        assert [subject for subject in deleted if "Policy" in subject] == [
            "ValidatingAdmissionPolicy berth.berth-limit",
            "ValidatingAdmissionPolicyBinding berth.berth-limit",
        ]
        with pytest.raises(InvalidError, match="failed expression"):
            await admin.create(berth)
        await tool.undeploy(inputs(policies=[renamed]), delete_objects=True)
        kind = unstructured_kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
        assert list(await admin.list(kind)) == []


async def test_a_dry_run_writes_nothing_and_shows_the_changes() -> None:
    """Before the first deployment everything would be created; later only the changed fields are shown."""
    async with cluster_with() as (_, admin, tool):
        assert await tool.deploy(inputs(), dry_run=True) == []
        assert tool.actions() == {DeployAction.CREATED}
        assert await admin.get_or_none(Namespace, NAMESPACE) is None
        await tool.deploy(inputs())
        assert await tool.deploy(inputs(image="berth:2"), dry_run=True) == []
        assert [step.changes for step in tool.steps if step.action is not DeployAction.UNCHANGED] == [
            ('spec.template.spec.containers.0.image: "berth:1" -> "berth:2"',)
        ]
        live = await admin.get(Deployment, f"{NAMESPACE}/berth")
        assert live.spec.template.spec.containers[0].image == "berth:1"


async def test_an_image_that_cannot_be_pulled_is_named() -> None:
    """At the timeout, the container's waiting reason is a problem, with what to do."""
    async with cluster_with() as (_, _admin, tool):
        problems = await tool.deploy(inputs(image="berth:does-not-exist"))
    assert problems[0] == "Deployment berth is not available: 0 of 2 replicas are available"
    assert "2 pods: container operator: " in problems[1]
    assert "ImagePull" in problems[1]
    assert "push the image, pass --image, or load it into the nodes" in problems[1]
    assert any(line.startswith("waiting: Deployment berth-system/berth: ") for line in tool.lines)


async def test_a_container_that_crashes_shows_its_last_words() -> None:
    """The exit code and the termination message of a crashing container are a problem."""
    crash = Stage(at=State.READY, to=State.CRASHED, message="ModuleNotFoundError: no module named berth", exit_code=3)
    async with cluster_with(stages=(crash, *DEFAULT_STAGES)) as (_, _admin, tool):
        problems = await tool.deploy(inputs())
    assert any("CrashLoopBackOff" in problem for problem in problems)
    assert any("exit code 3: ModuleNotFoundError: no module named berth" in problem for problem in problems)


async def test_a_quota_that_forbids_the_pods_ends_the_wait() -> None:
    """A ReplicaSet that cannot create pods fails soon, with the server's message; a raised quota mends it."""
    async with cluster_with() as (_, admin, tool):
        await admin.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
        spec = ResourceQuotaSpec(hard={"pods": Quantity("0")})
        await admin.create(ResourceQuota(metadata=ObjectMeta(name="few", namespace=NAMESPACE), spec=spec))
        started = asyncio.get_running_loop().time()
        problems = await tool.deploy(inputs(), within=10_000.0)
        assert asyncio.get_running_loop().time() - started < 100
        assert any("exceeded quota: few" in problem for problem in problems)
        quota = await admin.get(ResourceQuota, f"{NAMESPACE}/few")
        quota.spec.hard = {"pods": Quantity("5")}
        await admin.update(quota)
        assert await tool.deploy(inputs(), within=10_000.0) == []


async def test_a_webhook_without_certificate_is_a_problem() -> None:
    """The simulated pods run no operator, so nothing sets the ``caBundle``."""
    async with cluster_with() as (_, _admin, tool):
        (problem,) = await tool.deploy(inputs(webhooks=True))
    assert problem.startswith("ValidatingWebhookConfiguration berth-validating has no caBundle for ")


async def test_a_webhook_with_certificate_is_awaited() -> None:
    """The deployment ends when the operator has set the ``caBundle``, and a second one leaves it."""
    kind = unstructured_kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")

    async def inject(admin: Client) -> None:
        live = await eventually(lambda: admin.get(kind, "berth-validating"))
        await asyncio.sleep(5)
        live["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(make_ca().cert).decode()
        await admin.update(live)

    async with cluster_with() as (_, admin, tool), asyncio.TaskGroup() as tasks:
        tasks.create_task(inject(admin))
        assert await tool.deploy(inputs(webhooks=True)) == []
        assert any("has no caBundle" in line for line in tool.lines)
        assert await tool.deploy(inputs(webhooks=True)) == []
        assert tool.actions() == {DeployAction.UNCHANGED}


async def test_what_a_new_version_lacks_is_deleted_after_its_start() -> None:
    """A Service that only the earlier deployment had is deleted when the new one works, and not if it fails."""
    async with cluster_with() as (_, admin, tool):
        before = inputs(webhooks=True)
        before.configurations.clear()  # they would wait for a certificate
        await tool.deploy(before)
        service = f"{NAMESPACE}/berth-webhooks"
        assert await tool.deploy(inputs(image="berth:does-not-exist"), within=5.0) != []
        assert await admin.get_or_none(Service, service) is not None
        await tool.deploy(inputs(), dry_run=True)
        assert str(tool.steps[-1]) == f"deleted Service {service} (dry run)"
        assert await tool.deploy(inputs()) == []
        deleted = {step.subject for step in tool.steps if step.action is DeployAction.DELETED}
        assert f"Service {service}" in deleted
        assert await admin.get_or_none(Service, service) is None
        assert await tool.deploy(inputs()) == []
        assert tool.actions() == {DeployAction.UNCHANGED}


async def test_undeploy_deletes_what_an_earlier_version_had() -> None:
    """The record of the Deployment has it after a failed deployment too; objects of others stay."""
    async with cluster_with() as (_, admin, tool):
        before = inputs(webhooks=True)
        before.configurations.clear()
        await tool.deploy(before)
        await tool.deploy(inputs(image="berth:does-not-exist"), within=5.0)
        await tool.undeploy(inputs())
        assert await admin.get_or_none(Service, f"{NAMESPACE}/berth-webhooks") is None


async def test_objects_of_others_stay() -> None:
    """An object that another client created is taken over with ``force`` only; undeploy keeps it."""
    async with cluster_with() as (_, admin, tool):
        rule = PolicyRule(verbs=["get"], api_groups=[""], resources=["nodes"])
        await admin.create(ClusterRole(metadata=ObjectMeta(name="berth"), rules=[rule]))
        await admin.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
        with pytest.raises(UsageError, match="ClusterRole berth exists, and opsdk deploy did not create it"):
            await tool.deploy(inputs())
        await tool.undeploy(inputs())
        kept_subjects = {step.subject for step in tool.steps if step.action is DeployAction.KEPT}
        assert kept_subjects == {"ClusterRole berth", f"Namespace {NAMESPACE}"}
        assert await admin.get_or_none(ClusterRole, "berth") is not None
        assert await tool.deploy(inputs(), force=True) == []
        await tool.undeploy(inputs())
        assert await admin.get_or_none(ClusterRole, "berth") is None
        assert await admin.get_or_none(Namespace, NAMESPACE) is not None


async def test_a_field_of_another_manager_is_a_conflict() -> None:
    """A scaled Deployment keeps its replicas until ``force``."""
    async with cluster_with() as (_, admin, tool):
        await tool.deploy(inputs())
        live = await admin.get(Deployment, f"{NAMESPACE}/berth")
        live.spec.replicas = 5
        await admin.update(live)
        with pytest.raises(ConflictError, match=r"\.spec\.replicas") as caught:
            await tool.deploy(inputs())
        assert "pass --force" in caught.value.__notes__[0]
        assert await tool.deploy(inputs(), force=True) == []
        assert (await admin.get(Deployment, f"{NAMESPACE}/berth")).spec.replicas == 2


async def test_custom_objects_are_deleted_while_the_operator_runs() -> None:
    """Without ``delete_objects`` nothing is deleted; with it, finalizers run first."""
    async with cluster_with() as (env, admin, tool):
        await tool.deploy(inputs())
        async with running(make_operator(), env):
            await admin.create(Berth(metadata=ObjectMeta(name="a", namespace="default"), spec=BerthSpec()))
            await eventually(lambda: admin.get(ConfigMap, "default/a"))
            with pytest.raises(UsageError, match=r"1 custom objects exist, such as Berth default/a.*--delete-objects"):
                await tool.undeploy(inputs())
            assert tool.steps == []
            await tool.undeploy(inputs(), delete_objects=True)
        assert tool.steps[0] == DeployStep(subject="Berth default/a", action=DeployAction.DELETED)
        assert await admin.get_or_none(Namespace, NAMESPACE) is None


async def test_a_finalizer_that_nothing_handles_is_named() -> None:
    """Without the operator, the removal stops at the timeout before the Deployment, and names the finalizer."""
    async with cluster_with() as (_, admin, tool):
        await tool.deploy(inputs())
        meta = ObjectMeta(name="a", namespace="default", finalizers=["opsdk.dev/leave"])
        await admin.create(Berth(metadata=meta, spec=BerthSpec()))
        with pytest.raises(DeadlineError, match=r"Berth default/a still exists.*waits for finalizers opsdk.dev/leave"):
            await tool.undeploy(inputs(), delete_objects=True, within=5.0)
        assert await admin.get_or_none(Deployment, f"{NAMESPACE}/berth") is not None


async def test_a_namespace_with_objects_of_others_stays() -> None:
    """A namespace that opsdk deploy created is kept while it has a ConfigMap of another client."""
    async with cluster_with() as (_, admin, tool):
        await tool.deploy(inputs())
        await admin.create(ConfigMap(metadata=ObjectMeta(name="mine", namespace=NAMESPACE)))
        await tool.undeploy(inputs())
        (step,) = [step for step in tool.steps if step.action is DeployAction.KEPT]
        assert str(step) == f"kept Namespace {NAMESPACE}: it has ConfigMap {NAMESPACE}/mine"
        assert await admin.get_or_none(ServiceAccount, f"{NAMESPACE}/berth") is None


def test_pods_of_an_old_revision_explain_nothing() -> None:
    """Only the newest ReplicaSet's pods count, equal reasons are one line, and a pending pod has its reason."""

    def owned(kind: str, name: str, owner: str, **parts: object) -> JsonObject:
        references = [{"uid": owner, "controller": True, "kind": "x", "name": "x"}]
        annotations = {"deployment.kubernetes.io/revision": name[-1]}
        metadata = {"name": name, "uid": name, "ownerReferences": references, "annotations": annotations}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, **parts}

    def pending(name: str, node: str) -> JsonObject:
        spec = {"nodeName": node} if node else {}
        return owned("Pod", name, "set-2", spec=spec, status={"phase": "Pending"})

    def pod(name: str, owner: str, reason: str) -> JsonObject:
        container = {"name": "operator", "state": {"waiting": {"reason": reason}}}
        return owned("Pod", name, owner, status={"containerStatuses": [container]})

    deployment = owned("Deployment", "d", "-", spec={"replicas": 2}, status={"observedGeneration": 1})
    sets = [owned("ReplicaSet", f"set-{revision}", "d", spec={}, status={}) for revision in (1, 2)]
    pods = [pod("a", "set-1", "ErrImagePull"), pod("b", "set-2", "OutOfLuck"), pod("c", "set-2", "OutOfLuck")]
    assert deployment_problems(deployment, sets, pods) == [
        "Deployment d is not available: 0 of 2 replicas are updated",
        "2 pods: container operator: OutOfLuck",
    ]
    # Without a scheduler or a kubelet, only the phase of the pods says that they wait.
    for node, cause in (("", "no scheduler has assigned it to a node"), ("n", "the kubelet of node n has not started")):
        problems = deployment_problems(deployment, sets, [pending("a", node), pending("b", node)])
        assert problems[1].startswith(f"2 pods: pending: {cause}")
