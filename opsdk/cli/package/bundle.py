"""A bundle for the Operator Lifecycle Manager. Pure.

Upstream: github.com/operator-framework/operator-registry/docs/design/operator-bundle.md (registry+v1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.package import deployment as parts
from opsdk.cli.package.deployment import Workload
from opsdk.rbac.permissions import ALL_NAMESPACES, SELECTED_NAMESPACES
from opsdk.structured_merge.value import JsonObject


def _install(workload: Workload, rules: Mapping[str, Sequence[JsonObject]]) -> JsonObject:
    account = {"serviceAccountName": workload.name}
    # OLM binds no roles to selected namespaces.
    in_cluster = [*rules.get(ALL_NAMESPACES, ()), *rules.get(SELECTED_NAMESPACES, ())]
    return {
        "deployments": [
            {"name": each["metadata"]["name"], "label": each["metadata"]["labels"], "spec": each["spec"]}
            for each in parts.deployments(workload)
        ],
        "clusterPermissions": [{**account, "rules": in_cluster}],
        "permissions": [{**account, "rules": list(rules.get(workload.namespace, ()))}],
    }


def bundle_files(
    workload: Workload, definitions: Sequence[JsonObject], rules: Mapping[str, Sequence[JsonObject]], version: str
) -> Mapping[str, str]:
    """Return path -> text of an OLM bundle (registry+v1).

    Args:
        workload: the operator's workload.
        definitions: the CustomResourceDefinitions.
        rules: policy rules by namespace; the empty one holds those of the whole cluster.
        version: of the operator, three numbers.
    """
    owned = [
        {"name": d["metadata"]["name"], "kind": d["spec"]["names"]["kind"], "version": version_["name"]}
        for d in definitions
        for version_ in d["spec"]["versions"]
    ]
    csv = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{workload.name}.v{version}",
            "annotations": {"alm-examples": "[]", "capabilities": "Basic Install"},
        },
        "spec": {
            "displayName": workload.name,
            "version": version,
            "install": {"strategy": "deployment", "spec": _install(workload, rules)},
            "installModes": [
                {"type": mode, "supported": mode == "AllNamespaces"}
                for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
            ],
            "customresourcedefinitions": {"owned": owned},
        },
    }
    prefix = "operators.operatorframework.io.bundle"
    annotations = {
        f"{prefix}.mediatype.v1": "registry+v1",
        f"{prefix}.manifests.v1": "manifests/",
        f"{prefix}.metadata.v1": "metadata/",
        f"{prefix}.package.v1": workload.name,
        f"{prefix}.channels.v1": "alpha",
    }
    return {
        f"manifests/{workload.name}.clusterserviceversion.yaml": to_yaml([csv]),
        f"manifests/{workload.name}-metrics.service.yaml": to_yaml([parts.metrics_service(workload)]),
        **{f"manifests/{d['metadata']['name']}.crd.yaml": to_yaml([d]) for d in definitions},
        "metadata/annotations.yaml": to_yaml([{"annotations": annotations}]),
    }
