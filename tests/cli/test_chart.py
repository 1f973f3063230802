"""The Helm chart for its values: namespaces, disruption budgets, webhooks apart. Kustomize has the same objects."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from opsdk import Context, GroupVersionKind, Model, Object, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap, Node
from opsdk.api.rbac.v1 import PolicyRule
from opsdk.apimachinery.model import decode_hook
from opsdk.cli.package.helm import chart_files
from opsdk.cli.package.inputs import PackageInputs, inputs_of
from opsdk.cli.package.settings import ContainerSettings
from opsdk.cli.package.tree import config_files, installed_objects
from opsdk.cli.project import Project
from opsdk.errors import UsageError
from opsdk.rbac.permissions import RuleSet
from opsdk.rbac.rules import applies, reads, records_events
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.conversion import HubSpokeConverter, Spoke
from opsdk.webhook.handlers import AdmissionContext
from opsdk.webhook.policies import AdmissionRule, PolicyBinding, policy
from tests.cli.helm_templates import render

NAMESPACE = "quay-system"
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


class QuaySpec(Model):
    """A text such as ``{{ .Values.name }}``, which is not an expression of the chart."""

    text: str = "{{"
    place: str = "quay-system"


class QuayV2(Object[QuaySpec, None]):
    """The kind in another version, which a webhook converts."""

    gvk = GroupVersionKind("chart.opsdk.dev", "v2", "Quay")


class Quay(Object[QuaySpec, None]):
    """A kind."""

    gvk = GroupVersionKind("chart.opsdk.dev", "v1", "Quay")


@policy(Quay)
class QuayLimit:
    """A policy whose text is not an expression of the chart."""

    params = ConfigMap
    rules = (AdmissionRule("object.spec.text != '{{ .Values.name }}'", message="no {{"),)
    bindings = (PolicyBinding(param_name="limits", param_namespace=NAMESPACE),)


def make_operator(*, webhooks: bool = False) -> Operator:
    """Return an operator with rules in all namespaces, in one, and on a cluster-scoped kind."""
    operator = Operator("quay")
    operator.add_policy(QuayLimit)

    @operator.reconciler(Quay, owns=[ConfigMap], rbac=[applies(ConfigMap), records_events()])
    async def reconcile(quay: Quay, ctx: Context) -> None:
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name=quay.metadata.name)))

    def validate(quay: Quay, ctx: AdmissionContext) -> Sequence[str]:
        return []

    operator.rbac(reads(Node))
    if webhooks:
        spoke = Spoke(
            QuayV2,
            to_hub=lambda quay: Quay(metadata=quay.metadata, spec=quay.spec),
            from_hub=lambda quay: QuayV2(metadata=quay.metadata, spec=quay.spec),
        )
        operator.webhook_for(Quay).with_validator(create=validate).with_converter(HubSpokeConverter(Quay, spoke))
    return operator


def inputs(*, webhooks: bool = False, **settings: Any) -> PackageInputs:
    """Return the inputs of a project with these settings."""
    project = Project(
        folder=Path(),
        name="quay",
        operator="quay.operator:make_operator",
        namespace=NAMESPACE,
        image="quay:1",
        container=ContainerSettings(**settings),
    )
    return inputs_of(project, make_operator(webhooks=webhooks))


def rendered(parts: PackageInputs, namespace: str = NAMESPACE, **values: object) -> list[JsonObject]:
    """Return the objects of the chart, as ``helm template`` prints them."""
    files = chart_files(parts, "1.0.0")
    everything = {**yaml.safe_load(files["values.yaml"]), **values}
    texts = [render(text, everything, namespace) for path, text in files.items() if path.startswith("templates/")]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def of_kind(objects: Sequence[JsonObject], kind: str) -> dict[str, JsonObject]:
    """Return the objects of a kind by name."""
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind}


def granted(objects: Sequence[JsonObject]) -> RuleSet:
    """Return what roles grant that a binding with the right service account names."""
    rules = RuleSet()
    for obj in objects:
        if obj["kind"] in ("Role", "ClusterRole"):
            meta = obj["metadata"]
            bound = [
                each
                for each in objects
                if each["kind"] == f"{obj['kind']}Binding"
                and each["metadata"].get("namespace") == meta.get("namespace")
                if each["roleRef"]["name"] == meta["name"]
            ]
            for binding in bound:
                assert [each["namespace"] for each in binding["subjects"]] == ["here"]
                policy_rules = msgspec.convert(obj["rules"], list[PolicyRule], dec_hook=decode_hook)
                rules |= RuleSet.from_policy_rules(policy_rules, meta.get("namespace", ""))
    return rules


@pytest.mark.parametrize("webhooks", [False, True])
def test_watched_namespaces_get_exactly_the_roles_that_the_operator_needs(*, webhooks: bool) -> None:
    """The roles of the chart grant what the operator with the flag needs, also if it watches its own namespace."""
    everywhere = rendered(inputs(webhooks=webhooks), "here")
    watching = rendered(inputs(webhooks=webhooks), "here", watchNamespaces=["shop", "here"])
    project = Project(
        folder=Path(), name="quay", operator="quay.x:y", container=ContainerSettings(watch_namespaces=("shop", "here"))
    )
    needed = inputs_of(project, make_operator(webhooks=webhooks), namespace="here", image="i").rules
    assert granted(watching).normalized() == needed.normalized()
    assert not granted(watching).covers(next(iter(granted(everywhere) - granted(watching))))
    assert {p.resource for p in granted(watching) if not p.namespace and p.resource} >= {"nodes"}
    assert not [p for p in granted(watching) if not p.namespace and p.resource == "configmaps"]
    (deployment,) = of_kind(watching, "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--watch-namespaces=shop,here" in container["args"]
    assert not [arg for arg in container_of(everywhere)["args"] if "watch" in arg]


def container_of(objects: Sequence[JsonObject], name: str = "quay") -> JsonObject:
    """Return the container of a Deployment."""
    container: JsonObject = of_kind(objects, "Deployment")[name]["spec"]["template"]["spec"]["containers"][0]
    return container


def test_kustomize_watches_the_namespaces_of_the_project() -> None:
    """``watch-namespaces`` makes Roles and the flag; the chart has it as its default value."""
    parts = inputs(watch_namespaces=("shop",))
    files = installed_objects(parts.workload, parts.definitions, parts.rbac, parts.configurations)
    objects = [tree for trees in files.values() for tree in trees]
    roles = [(obj["kind"], obj["metadata"].get("namespace", "")) for obj in objects if obj["kind"].endswith("Role")]
    assert ("Role", "shop") in roles
    assert container_of(objects)["args"] == container_of(rendered(parts))["args"]


@pytest.mark.parametrize(("replicas", "budgets"), [(0, []), (1, []), (2, ["quay"])])
def test_more_than_one_pod_has_a_disruption_budget(replicas: int, budgets: list[str]) -> None:
    """A budget for one pod would block every drain; the chart decides by its value."""
    assert list(of_kind(rendered(inputs(), replicas=replicas), "PodDisruptionBudget")) == budgets
    parts = inputs(replicas=replicas)
    files = installed_objects(parts.workload, parts.definitions, parts.rbac)
    assert [obj["metadata"]["name"] for obj in files.get("disruption_budget.yaml", ())] == budgets


def test_webhooks_have_a_deployment_of_their_own() -> None:
    """The pods of the webhook Deployment serve webhooks only; each Service and budget selects its pods."""
    objects = rendered(inputs(webhooks=True, webhook_replicas=3))
    names = ("quay", "quay-webhooks")
    pods = {name: of_kind(objects, "Deployment")[name]["spec"]["template"]["metadata"]["labels"] for name in names}
    assert [of_kind(objects, "Deployment")[name]["spec"]["replicas"] for name in names] == [2, 3]
    controllers, webhooks = (container_of(objects, name) for name in names)
    assert "--components=controllers" in controllers["args"]
    assert "--components=webhooks" in webhooks["args"]
    assert ["--leader-elect" in each["args"] for each in (controllers, webhooks)] == [True, False]
    assert ["webhooks" in {p["name"] for p in each["ports"]} for each in (controllers, webhooks)] == [False, True]

    def selected(selector: dict[str, str]) -> list[str]:
        return [name for name, labels in pods.items() if selector.items() <= labels.items()]

    services = of_kind(objects, "Service")
    assert selected(services["quay-webhooks"]["spec"]["selector"]) == ["quay-webhooks"]
    assert selected(services["quay-metrics"]["spec"]["selector"]) == list(names)
    for name, budget in of_kind(objects, "PodDisruptionBudget").items():
        assert selected(budget["spec"]["selector"]["matchLabels"]) == [name]
    (policy,) = of_kind(objects, "NetworkPolicy").values()
    assert selected(policy["spec"]["podSelector"]["matchLabels"]) == list(names)


def test_no_file_has_anchors() -> None:
    """Each object is written out, also where parts of the manifests share labels and settings."""
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    parts = inputs(webhooks=True, webhook_replicas=2, pod={"topologySpreadConstraints": [spread, spread]})
    files = config_files(parts.workload, parts.definitions, parts.rbac, parts.configurations)
    texts = {**files, **chart_files(parts, "1.0.0")}
    assert [path for path, text in texts.items() if "&id" in text] == []


def test_webhook_replicas_need_webhooks() -> None:
    """A Deployment that could serve nothing is an error."""
    with pytest.raises(UsageError, match="the operator has no webhooks: remove it"):
        inputs(webhook_replicas=2)


def test_every_webhook_calls_the_namespace_of_the_release() -> None:
    """Admission and conversion call the Service where the chart is installed; schemas keep their texts."""
    objects = rendered(inputs(webhooks=True), "elsewhere")
    (definition,) = of_kind(objects, "CustomResourceDefinition").values()
    (configuration,) = of_kind(objects, "ValidatingWebhookConfiguration").values()
    clients = [definition["spec"]["conversion"]["webhook"], *configuration["webhooks"]]
    assert {each["clientConfig"]["service"]["namespace"] for each in clients} == {"elsewhere"}
    assert NAMESPACE not in str([obj for obj in objects if obj["kind"] != "CustomResourceDefinition"])
    assert "quay-system" in str(definition["spec"]["versions"])


@pytest.mark.parametrize(("own", "release"), [("456", "123"), ("on", "1e3"), ("y", "0x1f")])
def test_a_namespace_may_look_like_another_type(own: str, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both that of the project, which the chart replaces, and that of the release stay strings."""
    monkeypatch.setattr(sys.modules[__name__], "NAMESPACE", own)
    objects = rendered(inputs(webhooks=True), release)
    places = [obj["metadata"] for obj in objects] + [
        subject for obj in objects for subject in obj.get("subjects") or () if subject["kind"] == "ServiceAccount"
    ]
    assert {each["namespace"] for each in places if "namespace" in each} == {release}


def test_policies_keep_their_braces_and_read_the_namespace_of_the_release() -> None:
    """The CEL is not an expression of the chart; parameters in the operator's namespace move with it."""
    parts = inputs()
    policy, binding = (of_kind(rendered(parts), kind)["quay.quay-limit"] for kind in POLICIES)
    assert [policy, binding] == parts.policies
    assert policy["spec"]["validations"][0]["message"] == "no {{"
    moved = of_kind(rendered(parts, "other"), POLICIES[1])["quay.quay-limit"]
    assert moved["spec"]["paramRef"]["namespace"] == "other"
    config = config_files(parts.workload, parts.definitions, parts.rbac, parts.configurations, parts.policies)
    assert list(yaml.safe_load_all(config["policies.yaml"])) == parts.policies
    assert "policies.yaml" in yaml.safe_load(config["kustomization.yaml"])["resources"]


def test_definitions_are_upgraded_and_stay_after_an_uninstall() -> None:
    """They are templates with the resource policy ``keep``; a value leaves them out; braces stay as they are."""
    parts = inputs()
    (definition,) = of_kind(rendered(parts), "CustomResourceDefinition").values()
    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert definition["spec"] == parts.definitions[0]["spec"]
    assert "{{ .Values.name }}" in str(definition)
    assert not of_kind(rendered(parts, crds={"enabled": False}), "CustomResourceDefinition")
    assert not [path for path in chart_files(parts, "1.0.0") if path.startswith("crds/")]


def scheduling(pod: JsonObject) -> Iterator[str]:
    """Yield the fields of a pod's spec that scheduling settings add."""
    template_fields = {
        "containers",
        "securityContext",
        "serviceAccountName",
        "terminationGracePeriodSeconds",
        "volumes",
    }
    yield from (name for name in pod if name not in template_fields)


def test_values_schedule_the_pods() -> None:
    """Each value is a field of the pod template; empty ones are left out."""
    values: dict[str, Any] = {
        "affinity": {"podAntiAffinity": {}},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "ssd"},
        "priorityClassName": "high",
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    }
    (deployment,) = of_kind(rendered(inputs(), **values), "Deployment").values()
    pod = deployment["spec"]["template"]["spec"]
    assert {name: pod[name] for name in scheduling(pod)} == values
    (deployment,) = of_kind(rendered(inputs()), "Deployment").values()
    assert list(scheduling(deployment["spec"]["template"]["spec"])) == []
