"""A Helm chart with the same objects as ``config/``. Pure.

Upstream: helm.sh/docs/topics/charts (chart format v2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.package import deployment as parts
from opsdk.cli.package.deployment import Workload
from opsdk.cli.package.settings import ContainerSettings
from opsdk.structured_merge.value import JsonObject

# Placeholders in the objects that chart values replace.
_REPLICAS, _IMAGE = 424242, "@image@"
_ENV: JsonObject = {"name": "@env@", "value": ""}
_RESOURCES: JsonObject = {"@resources@": {}}
_TEMPLATES = {
    str(_REPLICAS): "{{ .Values.replicas }}",
    f"'{_IMAGE}'": "{{ .Values.image | quote }}",
    "        env:\n        - name: '@env@'\n          value: ''\n": "        {{- with .Values.env }}\n"
    "        env:\n          {{- toYaml . | nindent 10 }}\n        {{- end }}\n",
    "          '@resources@': {}\n": "          {{- toYaml .Values.resources | nindent 10 }}\n",
}


def chart_files(
    workload: Workload,
    definitions: Sequence[JsonObject],
    rbac: Sequence[JsonObject],
    configurations: Sequence[JsonObject],
    version: str,
) -> Mapping[str, str]:
    """Return path -> text of each file of the chart. Definitions are in ``crds/``, which Helm installs first."""
    plain = replace(
        workload,
        image=_IMAGE,
        settings=ContainerSettings(env=(_ENV,), resources=_RESOURCES, replicas=_REPLICAS),
    )
    services = [parts.metrics_service(plain), *([parts.webhook_service(plain)] if plain.webhooks else [])]
    operator = to_yaml([parts.deployment(plain), *services])
    for placeholder, template in _TEMPLATES.items():
        operator = operator.replace(placeholder, template)
    templates = {"webhooks.yaml": to_yaml(configurations)} if configurations else {}
    templates |= {
        "rbac.yaml": to_yaml(rbac),
        "operator.yaml": operator,
        "metrics_reader.yaml": to_yaml([parts.metrics_reader(plain)]),
        "network_policy.yaml": _wrap_if("networkPolicy.enabled", to_yaml([parts.network_policy(plain)])),
        "service_monitor.yaml": _wrap_if("serviceMonitor.enabled", to_yaml([parts.service_monitor(plain)])),
    }
    chart = {
        "apiVersion": "v2",
        "name": workload.name,
        "description": f"The operator {workload.name}",
        "type": "application",
        "version": version,
        "appVersion": version,
    }
    values = {
        "image": workload.image,
        "replicas": workload.settings.replicas,
        "env": list(workload.settings.env),
        "resources": workload.settings.resources,
        "networkPolicy": {"enabled": True},
        "serviceMonitor": {"enabled": False},
    }
    release = "{{ .Release.Namespace }}"
    return {
        "Chart.yaml": to_yaml([chart]),
        "values.yaml": to_yaml([values]),
        **{f"crds/{d['metadata']['name']}.yaml": to_yaml([d]) for d in definitions},
        **{
            f"templates/{name}": text.replace(f"namespace: {workload.namespace}\n", f"namespace: {release}\n")
            for name, text in templates.items()
        },
    }


def _wrap_if(value: str, text: str) -> str:
    return f"{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n"
