"""Generates the files of ``config/`` for ``kubectl apply -k config``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.package import deployment as parts
from opsdk.cli.package.deployment import Workload
from opsdk.structured_merge.value import JsonObject


def installed_objects(
    workload: Workload,
    definitions: Sequence[JsonObject],
    rbac: Sequence[JsonObject],
    configurations: Sequence[JsonObject] = (),
    policies: Sequence[JsonObject] = (),
) -> Mapping[str, Sequence[JsonObject]]:
    """Return path -> objects of each file of an installation, in the order to apply them.

    Definitions and the namespace come first. Webhook configurations come last: the API server calls the operator as
    soon as they exist.

    Args:
        workload: the operator's workload.
        definitions: the CustomResourceDefinitions.
        rbac: the service account, roles and bindings.
        configurations: of admission webhooks.
        policies: admission policies and their bindings.
    """
    files: dict[str, Sequence[JsonObject]] = {
        f"crd/{d['spec']['group']}_{d['spec']['names']['plural']}.yaml": [d] for d in definitions
    }
    services = [parts.metrics_service(workload), *([parts.webhook_service(workload)] if workload.webhooks else [])]
    files |= {
        "namespace.yaml": [parts.namespace(workload)],
        "rbac.yaml": rbac,
        "metrics_reader.yaml": [parts.metrics_reader(workload)],
        "network_policy.yaml": [parts.network_policy(workload)],
        "operator.yaml": [*parts.deployments(workload), *services],
    }
    if budgets := parts.disruption_budgets(workload):
        files["disruption_budget.yaml"] = budgets
    if policies:
        files["policies.yaml"] = policies
    return {**files, "webhooks.yaml": configurations} if configurations else files


def config_files(
    workload: Workload,
    definitions: Sequence[JsonObject],
    rbac: Sequence[JsonObject],
    configurations: Sequence[JsonObject] = (),
    policies: Sequence[JsonObject] = (),
) -> Mapping[str, str]:
    """Return path -> text of each file. Arguments are those of `installed_objects`."""
    installed = installed_objects(workload, definitions, rbac, configurations, policies)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # Definitions and the namespace come first: kustomize sorts by kind, kubectl apply -f does not.
        "resources": sorted(installed, key=lambda path: (not path.startswith("crd/"), path != "namespace.yaml", path)),
    }
    files = {path: to_yaml(objects) for path, objects in installed.items()}
    # Not in resources: it needs the CRDs of the Prometheus operator.
    monitor = {"service_monitor.yaml": to_yaml([parts.service_monitor(workload)])}
    return {**files, **monitor, "kustomization.yaml": to_yaml([kustomization])}
