"""What is found around an operator, and what is cleaned up after it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from envtest import Environment
from opsdk import Client, Context, GroupVersionKind, Model, Object, ObjectMeta, Operator, OperatorOptions, Unstructured
from opsdk.aio.clock import utc_now
from opsdk.api.coordination.v1 import Lease, LeaseSpec
from opsdk.api.core.v1 import ConfigMap, Service, ServiceSpec
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import to_dict
from opsdk.apimachinery.time import MicroTime
from opsdk.cli.doctor.examine import Removal, clean, examine
from opsdk.cli.doctor.findings import Finding, Level, worst
from opsdk.cluster.cluster import Cluster
from opsdk.engine.policies import apply_policies
from opsdk.rbac.rules import applies
from opsdk.testing.definitions import install_definitions
from opsdk.testing.eventually import eventually
from opsdk.testing.running import running
from opsdk.webhook.certificates.issuing import create_authority
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.handlers import AdmissionContext
from opsdk.webhook.policies import AdmissionRule, policy


class SiteSpec(Model):
    """A size."""

    size: int = 1


class Site(Object[SiteSpec, None]):
    """A kind."""

    gvk = GroupVersionKind("doctor.opsdk.dev", "v1", "Site")


SERVICE = WebhookClientConfig(service=WebhookService(name="doctor-webhooks", namespace="default"), ca_bundle=b"PEM")
DEFINITION = "sites.doctor.opsdk.dev"


def make_operator(*, election: bool = True, webhooks: bool = True) -> Operator:
    """Return an operator with everything that is looked at."""
    operator = Operator("doctor", OperatorOptions(leader_election=election))

    async def leave(site: Site, ctx: Context) -> None:
        """Do nothing."""

    @operator.reconciler(Site, owns=[ConfigMap], rbac=[applies(ConfigMap)], finalizers={"opsdk.dev/leave": leave})
    async def reconcile(site: Site, ctx: Context) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.metadata.name)))

    def validate(site: Site, ctx: AdmissionContext) -> Sequence[str]:
        return []

    if webhooks:
        operator.webhook_for(Site).with_validator(create=validate)
    return operator


def lines(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """Return checks and levels."""
    return [(finding.check, finding.level.value) for finding in findings]


async def test_an_empty_cluster_lacks_every_part(k8s_env: Environment) -> None:
    """In an empty cluster each missing part is a finding with advice, and the admin has all permissions."""
    findings = await examine(make_operator(), k8s_env.config, namespace="default")
    expected = [("permissions", "ok"), ("definition", "error"), ("webhook", "error"), ("lease", "warning")]
    assert lines(findings) == expected
    assert all(finding.advice for finding in findings if finding.level is not Level.OK)
    assert worst(findings) is Level.ERROR


async def test_a_healthy_operator(k8s_env: Environment) -> None:
    """While it runs with its definition, its webhooks and its Lease, everything is in order."""
    async with running(make_operator(), k8s_env) as operator:
        await eventually(lambda: operator.controllers["site"].state.value == "running")
        findings = await examine(make_operator(), k8s_env.config, namespace="default")
    assert lines(findings) == [("permissions", "ok"), ("definition", "ok"), ("webhook", "ok"), ("lease", "ok")]
    assert "is held by" in findings[-1].message


async def test_a_user_without_permissions(k8s_env: Environment) -> None:
    """Each missing permission is a line; checks that need permissions name them and do not stop the others."""
    findings = await examine(make_operator(), k8s_env.add_user("bob").config, namespace="default")
    missing = [finding for finding in findings if finding.check == "permissions"]
    assert {finding.level for finding in missing} == {Level.ERROR}
    assert "this user cannot list configmaps" in [finding.message for finding in missing]
    others = [finding for finding in findings if finding.check != "permissions"]
    assert {finding.level for finding in others} == {Level.WARNING}
    assert all("403 Forbidden" in finding.message for finding in others)


async def test_each_problem_is_a_finding(k8s_env: Environment, k8s_client: Client) -> None:
    """Another schema, an old stored version, a webhook without pods, a stuck finalizer and a stale Lease are named."""
    operator = make_operator()
    definition = crd_for(Site)
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] = {"count": {"type": "integer"}}
    await install_definitions(k8s_client, [definition])
    crd = await k8s_client.get(unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), DEFINITION)
    crd["status"]["storedVersions"] = ["v1alpha1", "v1"]
    await k8s_client.subresource("status").update(crd)
    site = Site(metadata=ObjectMeta(name="a", namespace="default", finalizers=["opsdk.dev/leave"]), spec=SiteSpec())
    await k8s_client.create(site)
    await k8s_client.delete(site)
    renewed = MicroTime.of(utc_now())
    lease = LeaseSpec(holder_identity="pod-1", lease_duration_seconds=15, renew_time=renewed)
    await k8s_client.create(Lease(metadata=ObjectMeta(name="doctor", namespace="default"), spec=lease))
    (tree,) = operator.webhook_configurations(SERVICE)
    await k8s_client.create(Unstructured.from_tree(tree))
    await asyncio.sleep(timedelta(minutes=6).total_seconds())
    messages: dict[tuple[str, str], str] = {}
    for finding in await examine(operator, k8s_env.config, namespace="default"):
        key = finding.check, finding.subject
        messages[key] = messages.get(key, "") + finding.message
    assert "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties" in messages["definition", DEFINITION]
    assert (
        "no pod is ready behind service default/doctor-webhooks: every request"
        in messages["webhook", "ValidatingWebhookConfiguration doctor-validating"]
    )
    assert "has been terminating for 6 minutes and waits for opsdk.dev/leave" in messages["finalizer", "Site default/a"]
    assert "expired 345 s ago; its last holder was pod-1" in messages["lease", "default/doctor"]


async def test_a_service_with_an_external_name_needs_no_pods(k8s_env: Environment, k8s_client: Client) -> None:
    """The API server resolves an ExternalName itself, as for an operator on a laptop: its Service has no endpoints."""
    operator = make_operator(election=False)
    (tree,) = operator.webhook_configurations(SERVICE)
    await k8s_client.create(Unstructured.from_tree(tree))
    expected = [["ok"], ["error"]]
    spec = ServiceSpec(type="ExternalName", external_name="laptop.example.com")
    await k8s_client.create(Service(metadata=ObjectMeta(name="doctor-webhooks", namespace="default"), spec=spec))
    for levels in expected:
        findings = await examine(operator, k8s_env.config, namespace="default")
        assert [f.level.value for f in findings if f.check == "webhook"] == levels
        await k8s_client.delete(Service, "default/doctor-webhooks", missing_ok=True)


class OldSite(Object[SiteSpec, None]):
    """The kind before its rename."""

    gvk = GroupVersionKind("doctor.opsdk.dev", "v1alpha1", "Site")


async def test_a_lost_conversion_is_an_error(k8s_env: Environment, k8s_client: Client) -> None:
    """A definition without the conversion that the operator declares is an error; with it, it is in order."""
    operator = make_operator(election=False)
    spoke = Spoke(OldSite, lambda old: Site(spec=old.spec), lambda new: OldSite(spec=new.spec))
    operator.webhook_for(Site).with_converter(HubSpokeConverter(Site, spoke))
    (definition,) = operator.definitions(replace(SERVICE, ca_bundle=create_authority(utc_now(), 1000).cert))
    await install_definitions(k8s_client, [definition])
    before = await examine(operator, k8s_env.config, namespace="default")
    assert [f.level for f in before if f.check == "definition"] == [Level.OK]
    crd = await k8s_client.get(unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), DEFINITION)
    del crd["spec"]["conversion"]
    await k8s_client.update(crd)
    (finding,) = (f for f in await examine(operator, k8s_env.config, namespace="default") if f.check == "definition")
    assert finding.level is Level.ERROR
    assert finding.message == "has no spec.conversion with a webhook, so objects of other versions lose fields"


async def test_cleanup_removes_finalizers_and_webhooks(k8s_env: Environment, k8s_client: Client) -> None:
    """First what it would do, then what it does; foreign finalizers and a second call change nothing."""
    operator = make_operator(election=False)
    await install_definitions(k8s_client, [crd_for(Site)])
    finalizers = ["opsdk.dev/leave", "example.com/other"]
    await k8s_client.create(
        Site(metadata=ObjectMeta(name="a", namespace="default", finalizers=finalizers), spec=SiteSpec())
    )
    (tree,) = operator.webhook_configurations(SERVICE)
    await k8s_client.create(Unstructured.from_tree(tree))
    planned = await clean(operator, k8s_env.config, definitions=False, dry_run=True)
    assert planned == [
        Removal(subject="Site default/a", action="remove finalizer opsdk.dev/leave"),
        Removal(subject="ValidatingWebhookConfiguration doctor-validating", action="delete"),
    ]
    assert (await k8s_client.get(Site, "default/a")).metadata.finalizers == finalizers
    assert await clean(operator, k8s_env.config, definitions=False, dry_run=False) == planned
    assert (await k8s_client.get(Site, "default/a")).metadata.finalizers == ["example.com/other"]
    last = [Removal(subject=f"CustomResourceDefinition {DEFINITION}", action="delete")]
    assert await clean(operator, k8s_env.config, definitions=True, dry_run=True) == last
    assert await clean(operator, k8s_env.config, definitions=True, dry_run=False) == last


async def test_policies_are_compared_and_removed(k8s_env: Environment, k8s_client: Client) -> None:
    """A missing or changed policy is a warning; cleanup deletes the bindings and the policies."""

    @policy(ConfigMap)
    class Limit:
        rules = (AdmissionRule("!has(object.data) || object.data.size() < 9"),)

    operator = Operator("berths")
    operator.add_policy(Limit)

    async def findings() -> list[tuple[str, str]]:
        every = await examine(operator, k8s_env.config, namespace="default")
        return [(each.level.value, each.message) for each in every if each.check == "policy"]

    no_effect = "does not exist, so ValidatingAdmissionPolicy berths.limit has no effect"
    missing = [("warning", "does not exist"), ("warning", no_effect)]
    assert await findings() == missing
    _, binding = await apply_policies(k8s_client, operator, field_owner="tests")
    assert await findings() == [("ok", "matches the declaration")] * 2
    tree = to_dict(binding)
    tree["spec"]["validationActions"] = ["Audit"]
    await k8s_client.update(Unstructured.from_tree(tree))
    assert (await findings())[1] == ("warning", 'validationActions is ["Audit"], not ["Deny"]')
    removed = await clean(operator, k8s_env.config, definitions=False, dry_run=False)
    assert [each.subject for each in removed] == [
        "ValidatingAdmissionPolicyBinding berths.limit",
        "ValidatingAdmissionPolicy berths.limit",
    ]
    assert await findings() == missing


async def test_nothing_to_clean(k8s_env: Environment) -> None:
    """A cluster that never saw the operator."""
    operator = make_operator(webhooks=False)
    assert await clean(operator, k8s_env.config, definitions=True, dry_run=True) == []
    assert await clean(operator, k8s_env.config, definitions=True, dry_run=False) == []


@pytest.mark.parametrize("level", list(Level))
def test_the_worst_finding_decides(level: Level) -> None:
    """The worst finding decides the result: ok, warning or error."""
    below = list(Level)[: list(Level).index(level) + 1]
    assert worst([Finding(check="x", level=each) for each in below]) is level


async def test_orphaned_finalizers(k8s_env: Environment) -> None:
    """An object of any kind whose deletion waits for a lifecycle's finalizer has a line; living objects have none."""
    async with Cluster(k8s_env.config) as cluster:
        client = cluster.uncached
        for name, finalizer in (("a", "controller.cattle.io/dns"), ("b", "wrangler.cattle.io/x"), ("c", "other.dev/x")):
            meta = ObjectMeta(name=name, namespace="default", finalizers=[finalizer])
            created = await client.create(ConfigMap(metadata=meta))
            if name != "b":
                await client.delete(created)
    assert not [
        f for f in await examine(make_operator(), k8s_env.config, namespace="default") if f.check == "finalizer"
    ]
    findings = await examine(make_operator(), k8s_env.config, namespace="default", orphans=True)
    assert [(f.subject, f.level, f.message, f.advice) for f in findings if f.check == "finalizer"] == [
        (
            "ConfigMap default/a",
            Level.WARNING,
            "is being deleted and waits for controller.cattle.io/dns, which this operator does not declare",
            "if the program is removed: opsdk cleanup --finalizers controller.cattle.io/dns",
        )
    ]
