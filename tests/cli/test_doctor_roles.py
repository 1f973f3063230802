"""``opsdk doctor`` compares the roles of a deployed service account with what the operator needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest import Environment
from opsdk import Client, Context, ObjectMeta, Operator, Unstructured, UsageError
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Container, EnvVar, Namespace
from opsdk.api.rbac.v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject
from opsdk.apimachinery.object import convert
from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.doctor.command import recorded_rules
from opsdk.cli.doctor.examine import examine
from opsdk.cli.doctor.findings import Finding, Level
from opsdk.cli.doctor.roles import BoundRole, flags_of, of_roles
from opsdk.cli.package.deployment import Workload, deployments
from opsdk.cli.package.inputs import inputs_of
from opsdk.cli.package.settings import ContainerSettings
from opsdk.cli.package.tree import installed_objects
from opsdk.cli.project import Project
from opsdk.rbac.manifests import RbacNames, manifests
from opsdk.rbac.permissions import Permission, RuleSet
from opsdk.rbac.rules import RbacRule, applies
from opsdk.webhook.handlers import AdmissionContext

PERMISSIONS = st.sets(
    st.builds(
        Permission,
        st.sampled_from(["get", "list", "patch"]),
        st.sampled_from(["", "apps"]),
        st.sampled_from(["pods", "secrets"]),
        st.sampled_from(["", "a"]),
        st.sampled_from(["", "shop"]),
    ),
    max_size=6,
)


def make_operator(*, webhooks: bool = False) -> Operator:
    """Return an operator that applies ConfigMaps and reads Secrets, and validates ConfigMaps on request."""
    operator = Operator("hoist")

    def validate(config_map: ConfigMap, ctx: AdmissionContext) -> None:
        """Accept it."""

    if webhooks:
        operator.webhook_for(ConfigMap).with_validator(create=validate)

    @operator.reconciler(ConfigMap, rbac=[applies(ConfigMap), RbacRule("get", "secrets")])
    async def reconcile(config_map: ConfigMap, ctx: Context) -> None:
        """Do nothing."""

    return operator


async def deploy(client: Client, *rules: PolicyRule, args: Sequence[str] = ()) -> None:
    """Create the operator's Deployment with other arguments, and a ClusterRole with these rules."""
    settings = ContainerSettings()
    workload = Workload(name="hoist", namespace="default", image="i", package="p", settings=settings)
    (tree,) = deployments(workload)
    tree["spec"]["template"]["spec"]["containers"][0]["args"] = list(args)
    await client.create(convert(tree, Deployment))
    await client.create(ClusterRole(metadata=ObjectMeta(name="hoist"), rules=list(rules)))
    ref = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="hoist")
    subjects = [Subject(kind="ServiceAccount", name="hoist", namespace="default")]
    await client.create(ClusterRoleBinding(metadata=ObjectMeta(name="hoist"), role_ref=ref, subjects=subjects))


def rule(resources: str, verbs: str) -> PolicyRule:
    """Return a rule on resources of the core group."""
    return PolicyRule(api_groups=[""], resources=resources.split(), verbs=verbs.split())


async def permissions(env: Environment, recorded: RuleSet | None = None) -> list[Finding]:
    """Return the findings about permissions."""
    findings = await examine(make_operator(), env.config, namespace="default", recorded=recorded)
    return [finding for finding in findings if finding.check == "permissions"]


async def test_a_missing_and_an_unused_rule_are_findings_with_their_fix(
    k8s_env: Environment, k8s_client: Client
) -> None:
    """What is missing is an error, what is too much a warning; each fix names the role and the rule."""
    await deploy(k8s_client, rule("configmaps", "get list watch create"), rule("secrets", "get delete"))
    assert [(f.level, f.message, f.advice) for f in await permissions(k8s_env)] == [
        (
            Level.ERROR,
            "cannot patch configmaps, which the operator needs",
            'add to ClusterRole hoist: {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}',
        ),
        (
            Level.WARNING,
            "can delete secrets, which the declaration never uses",
            'remove from ClusterRole hoist: {"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"]}',
        ),
    ]


async def test_a_rule_that_is_too_wide_is_replaced(k8s_env: Environment, k8s_client: Client) -> None:
    """The fix of a wildcard has the rules that the operator uses of it."""
    await deploy(k8s_client, rule("configmaps", "get list watch create patch"), rule("secrets", "*"))
    (finding,) = await permissions(k8s_env)
    assert finding.message == "can * secrets, of which the declaration uses only a part"
    assert finding.advice.endswith('with {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}')


async def test_the_flags_of_the_deployment_count(k8s_env: Environment, k8s_client: Client) -> None:
    """An operator with leader election needs its Lease; without the flag it does not."""
    declared = rule("configmaps", "get list watch create patch"), rule("secrets", "get")
    await deploy(k8s_client, *declared, args=["--leader-elect", "--unknown"])
    missing = await permissions(k8s_env)
    assert {finding.level for finding in missing} == {Level.ERROR}
    assert any("leases" in finding.message and "in namespace default" in finding.message for finding in missing)
    deployment = await k8s_client.get(Deployment, "default/hoist")
    deployment.spec.template.spec.containers[0].args = []
    await k8s_client.update(deployment)
    assert [finding.level for finding in await permissions(k8s_env)] == [Level.OK]


async def test_selected_namespaces_need_a_binding_each(k8s_env: Environment, k8s_client: Client) -> None:
    """The operator needs its permissions in each namespace that the selector matches now."""
    await deploy(k8s_client, rule("namespaces", "get list watch"), args=["--watch-namespace-selector=env=prod"])
    declared = rule("configmaps", "get list watch create patch"), rule("secrets", "get")
    name = "hoist-selected-namespaces"
    await k8s_client.create(ClusterRole(metadata=ObjectMeta(name=name), rules=list(declared)))
    ref = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=name)
    subjects = [Subject(kind="ServiceAccount", name="hoist", namespace="default")]
    for namespace in ("shop", "billing"):
        await k8s_client.create(Namespace(metadata=ObjectMeta(name=namespace, labels={"env": "prod"})))
    binding = RoleBinding(metadata=ObjectMeta(name="hoist", namespace="shop"), role_ref=ref, subjects=subjects)
    await k8s_client.create(binding)
    missing = await permissions(k8s_env)
    assert {finding.level for finding in missing} == {Level.ERROR}
    assert all("in namespace billing" in finding.message for finding in missing)
    binding = RoleBinding(metadata=ObjectMeta(name="hoist", namespace="billing"), role_ref=ref, subjects=subjects)
    await k8s_client.create(binding)
    assert [finding.level for finding in await permissions(k8s_env)] == [Level.OK]


@pytest.mark.parametrize(
    ("settings", "webhooks"),
    [
        (ContainerSettings(), False),
        (ContainerSettings(), True),
        (ContainerSettings(webhook_replicas=2), True),
        (ContainerSettings(watch_namespaces=("kube-public",)), True),
    ],
)
async def test_what_opsdk_deploys_has_exactly_its_permissions(
    k8s_env: Environment, k8s_client: Client, settings: ContainerSettings, *, webhooks: bool
) -> None:
    """The manifests of a project have neither too few nor too many rules, for each way to deploy it."""
    project = Project(
        folder=Path(), name="hoist", operator="hoist.x:y", namespace="kube-system", image="i", container=settings
    )
    parts = inputs_of(project, make_operator(webhooks=webhooks))
    files = installed_objects(parts.workload, parts.definitions, parts.rbac, parts.configurations)
    for tree in [tree for trees in files.values() for tree in trees]:
        await k8s_client.apply(Unstructured.from_tree(tree), field_owner="test", force=True)
    findings = await examine(make_operator(webhooks=webhooks), k8s_env.config, namespace="kube-system")
    assert [finding.level for finding in findings if finding.check == "permissions"] == [Level.OK]


async def test_a_recording_shows_declared_rules_that_nothing_uses(k8s_env: Environment, k8s_client: Client) -> None:
    """With a recording, a granted permission that was declared but never used is a warning too."""
    await deploy(k8s_client, rule("configmaps", "get list watch create patch"), rule("secrets", "get"))
    recorded = RuleSet(Permission(verb, "", "configmaps") for verb in ("create", "patch"))
    (finding,) = await permissions(k8s_env, recorded)
    assert finding.message == "can get secrets, which the recording never uses"


def test_a_recording_is_read_from_manifests(tmp_path: Path) -> None:
    """The file of `observed_manifests` gives back its rules; a file without roles is an error."""
    rules = RuleSet([Permission("get", "", "pods"), Permission("list", "apps", "deployments", namespace="shop")])
    path = tmp_path / "roles.yaml"
    path.write_text(to_yaml(manifests(rules, RbacNames(name="hoist"))))
    assert recorded_rules(path) == rules
    path.write_text("kind: Namespace\n")
    with pytest.raises(UsageError, match="has no roles with rules"):
        recorded_rules(path)
    with pytest.raises(UsageError, match="cannot be read"):
        recorded_rules(tmp_path / "missing.yaml")


@pytest.mark.slow
@given(PERMISSIONS, PERMISSIONS)
def test_following_every_advice_leaves_nothing_to_report(granted: set[Permission], needed: set[Permission]) -> None:
    """The union of the needed permissions and nothing else has one finding, and it is ok."""
    findings = list(of_roles("a/b", [role_of(RuleSet(granted))], RuleSet(needed), RuleSet(needed), recorded=False))
    missing = RuleSet(needed) - RuleSet(granted)
    excess = RuleSet(granted) - RuleSet(needed)
    assert any(finding.level is Level.ERROR for finding in findings) is bool(missing)
    assert any(finding.level is Level.WARNING for finding in findings) is bool(excess)
    exact = list(of_roles("a/b", [role_of(RuleSet(needed))], RuleSet(needed), RuleSet(needed), recorded=False))
    assert [finding.level for finding in exact] == [Level.OK]


def role_of(rules: RuleSet) -> BoundRole:
    """Return a role that the account has itself."""
    return BoundRole(name="ClusterRole a", rules=rules, direct=True)


def test_roles_of_groups_are_not_reported() -> None:
    """Permissions of every service account count as granted, and are not reported as unused."""
    rules = RuleSet([Permission("get", "", "pods")])
    group = BoundRole(name="ClusterRole basic", rules=rules, direct=False)
    (finding,) = of_roles("a/b", [group], rules, RuleSet(), recorded=False)
    assert finding.level is Level.OK


def test_the_environment_sets_flags_too() -> None:
    """A variable counts unless an argument sets the same flag."""
    env = [EnvVar(name="OPSDK_LEADER_ELECT", value="true"), EnvVar(name="OPSDK_LOG_FORMAT", value="json")]
    container = Container(name="operator", args=["--log-format=text"], env=env)
    assert flags_of(container) == ("log-format=text", "leader-elect=true")
