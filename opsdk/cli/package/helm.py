"""A Helm chart with the same objects as ``config/``. Pure.

CustomResourceDefinitions are templates: Helm installs ``crds/`` once and never upgrades it. ``helm.sh/resource-policy:
keep`` leaves them, and with them all custom objects, when the release is uninstalled.

Upstream: helm.sh/docs/topics/charts (chart format v2), helm.sh/docs/chart_best_practices/custom_resource_definitions
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Final

from opsdk.apimachinery.serializer.yaml_writer import write_yaml
from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.package import deployment as parts
from opsdk.cli.package.deployment import Workload
from opsdk.cli.package.inputs import WATCHED, PackageInputs, role_objects
from opsdk.cli.package.settings import POD_FIELDS, ContainerSettings
from opsdk.structured_merge.value import JsonObject

# Placeholders in the objects that chart values replace.
_REPLICAS, _WEBHOOK_REPLICAS, _IMAGE, _NAMESPACES = 424242, 434343, "@image@", "@namespaces@"
_ENV: JsonObject = {"name": "@env@", "value": ""}
_RESOURCES: JsonObject = {"@resources@": {}}
_POD: JsonObject = {"@pod@": {}}
_RELEASE: Final = "{{ $.Release.Namespace | quote }}"


def _pod_template(name: str) -> str:
    value = " {{ . | quote }}\n" if isinstance(POD_FIELDS[name], str) else "\n        {{- toYaml . | nindent 8 }}\n"
    return f"      {{{{- with .Values.{name} }}}}\n      {name}:{value}      {{{{- end }}}}\n"


_TEMPLATES: Final = {
    str(_REPLICAS): "{{ .Values.replicas }}",
    str(_WEBHOOK_REPLICAS): "{{ .Values.webhookReplicas }}",
    f"'{_IMAGE}'": "{{ .Values.image | quote }}",
    f"        - --watch-namespaces={_NAMESPACES}\n": "        {{- with .Values.watchNamespaces }}\n"
    '        - --watch-namespaces={{ join "," . }}\n        {{- end }}\n',
    "        env:\n        - name: '@env@'\n          value: \"\"\n": "        {{- with .Values.env }}\n"
    "        env:\n          {{- toYaml . | nindent 10 }}\n        {{- end }}\n",
    "          '@resources@': {}\n": "          {{- toYaml .Values.resources | nindent 10 }}\n",
    "      '@pod@': {}\n": "".join(map(_pod_template, POD_FIELDS)),
}


def chart_files(inputs: PackageInputs, version: str) -> Mapping[str, str]:
    """Return path -> text of each file of the chart.

    Args:
        inputs: of the project.
        version: of the chart and of the operator.
    """
    workload = inputs.workload
    settings = ContainerSettings(
        env=(_ENV,),
        resources=_RESOURCES,
        replicas=_REPLICAS,
        pod=_POD,
        watch_namespaces=(_NAMESPACES,),
        webhook_replicas=_WEBHOOK_REPLICAS if workload.has_webhook_pods else 0,
    )
    plain = replace(workload, image=_IMAGE, settings=settings)
    templates = {"webhooks.yaml": to_yaml(inputs.configurations)} if inputs.configurations else {}
    templates |= {
        "rbac.yaml": _roles(inputs),
        "operator.yaml": _operator(plain),
        "disruption_budget.yaml": _disruption_budgets(plain),
        "metrics_reader.yaml": to_yaml([parts.metrics_reader(plain)]),
        "network_policy.yaml": _wrap_if(".Values.networkPolicy.enabled", to_yaml([parts.network_policy(plain)])),
        "service_monitor.yaml": _wrap_if(".Values.serviceMonitor.enabled", to_yaml([parts.service_monitor(plain)])),
    }
    if inputs.policies:
        templates["policies.yaml"] = _literal(to_yaml(inputs.policies))
    own = write_yaml({"namespace": workload.namespace})
    templates = {name: text.replace(own, f"namespace: {_RELEASE}\n") for name, text in templates.items()}
    if inputs.definitions:
        templates["crds.yaml"] = _wrap_if(".Values.crds.enabled", _definitions(inputs.definitions))
    chart = {
        "apiVersion": "v2",
        "name": workload.name,
        "description": f"The operator {workload.name}",
        "type": "application",
        "version": version,
        "appVersion": version,
    }
    return {
        "Chart.yaml": to_yaml([chart]),
        "values.yaml": to_yaml([_values(workload)]),
        **{f"templates/{name}": text for name, text in templates.items()},
    }


def _values(workload: Workload) -> JsonObject:
    settings = workload.settings
    pod = {**POD_FIELDS, **settings.pod}
    pod["topologySpreadConstraints"] = parts.with_selectors(pod["topologySpreadConstraints"], workload)
    return {
        "image": workload.image,
        "replicas": settings.replicas,
        **({"webhookReplicas": settings.webhook_replicas} if workload.has_webhook_pods else {}),
        "env": list(settings.env),
        "resources": settings.resources,
        "watchNamespaces": list(settings.watch_namespaces),
        **pod,
        "crds": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "serviceMonitor": {"enabled": False},
    }


def _operator(workload: Workload) -> str:
    """Return the Deployments and Services with the expressions of the values."""
    services = [parts.metrics_service(workload), *([parts.webhook_service(workload)] if workload.webhooks else [])]
    text = to_yaml([*parts.deployments(workload), *services])
    for placeholder, template in _TEMPLATES.items():
        text = text.replace(placeholder, template)
    return text


def _definitions(definitions: Sequence[JsonObject]) -> str:
    """Return the definitions as a template. Braces and namespaces in schemas are not expressions."""
    policy = {"helm.sh/resource-policy": "keep"}
    trees = []
    for definition in definitions:
        metadata, spec = definition["metadata"], definition["spec"]
        if "conversion" in spec:
            conversion = deepcopy(spec["conversion"])
            conversion["webhook"]["clientConfig"].get("service", {})["namespace"] = _NAMESPACES
            spec = {**spec, "conversion": conversion}
        annotations = {**(metadata.get("annotations") or {}), **policy}
        trees.append({**definition, "metadata": {**metadata, "annotations": annotations}, "spec": spec})
    return _literal(to_yaml(trees)).replace(f"'{_NAMESPACES}'", _RELEASE)


def _literal(text: str) -> str:
    """Return a text whose braces are not expressions."""
    return text.replace("{{", '{{ "{{" }}')


def _roles(inputs: PackageInputs) -> str:
    """Return the roles: a ClusterRole, or a Role in each namespace of the value ``watchNamespaces``."""
    workload = inputs.workload
    account, *cluster = role_objects(workload, inputs.cluster_rules)
    _, *watched = role_objects(workload, inputs.watched_rules)
    fixed = [tree for tree in watched if tree["metadata"].get("namespace") != WATCHED]
    each = [_in_each_namespace(tree) for tree in watched if tree not in fixed]
    text = to_yaml([account]) + "{{- if .Values.watchNamespaces }}\n" + _documents(fixed)
    if each:
        text += "{{- range .Values.watchNamespaces }}\n" + _documents(each).replace(WATCHED, "{{ . | quote }}")
        text += "{{- end }}\n"
    return text + "{{- else }}\n" + _documents(cluster) + "{{- end }}\n"


def _in_each_namespace(tree: JsonObject) -> JsonObject:
    """Return a role or binding with a name of its own: the operator's own namespace, which has one, may be watched."""
    metadata = tree["metadata"]
    renamed = {**tree, "metadata": {**metadata, "name": f"{metadata['name']}-watched"}}
    if "roleRef" in tree:
        renamed["roleRef"] = {**tree["roleRef"], "name": f"{tree['roleRef']['name']}-watched"}
    return renamed


def _documents(trees: Sequence[JsonObject]) -> str:
    return "".join(f"---\n{to_yaml([tree])}" for tree in trees)


def _disruption_budgets(workload: Workload) -> str:
    """Return each budget, if its Deployment has more than one pod."""
    values = (".Values.replicas", ".Values.webhookReplicas")
    budgets = parts.disruption_budgets(workload)
    return "".join(
        _wrap_if(f"gt (int {value}) 1", f"---\n{to_yaml([budget])}")
        for value, budget in zip(values, budgets, strict=False)
    )


def _wrap_if(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
