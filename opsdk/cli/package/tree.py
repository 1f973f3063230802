"""Generates the files of ``config/`` for ``kubectl apply -k config``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.package import deployment as parts
from opsdk.cli.package.deployment import Workload
from opsdk.structured_merge.value import JsonObject


def config_files(
    workload: Workload, definitions: Sequence[JsonObject], rbac: str, configurations: Sequence[JsonObject] = ()
) -> Mapping[str, str]:
    """Return path -> text of each file.

    Args:
        workload: the operator's workload.
        definitions: the CustomResourceDefinitions.
        rbac: the service account, roles and bindings as YAML.
        configurations: of admission webhooks.
    """
    files = {f"crd/{d['spec']['group']}_{d['spec']['names']['plural']}.yaml": to_yaml([d]) for d in definitions}
    services = [parts.metrics_service(workload)]
    if workload.webhooks:
        services.append(parts.webhook_service(workload))
    files |= {
        "namespace.yaml": to_yaml([parts.namespace(workload)]),
        "rbac.yaml": rbac,
        "operator.yaml": to_yaml([parts.deployment(workload), *services]),
        "metrics_reader.yaml": to_yaml([parts.metrics_reader(workload)]),
        "network_policy.yaml": to_yaml([parts.network_policy(workload)]),
    }
    if configurations:
        files["webhooks.yaml"] = to_yaml(configurations)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # Definitions and the namespace come first: kustomize sorts by kind, kubectl apply -f does not.
        "resources": sorted(files, key=lambda path: (not path.startswith("crd/"), path != "namespace.yaml", path)),
    }
    # Not in resources: it needs the CRDs of the Prometheus operator.
    monitor = {"service_monitor.yaml": to_yaml([parts.service_monitor(workload)])}
    return {**files, **monitor, "kustomization.yaml": to_yaml([kustomization])}
