"""The objects around an operator's container: namespace, Deployment, metrics Service, network policy. Pure.

Upstream: sigs.k8s.io/kubebuilder/pkg/plugins/common/kustomize/v2/scaffolds (config/manager, prometheus, network-policy)
"""

from __future__ import annotations

from dataclasses import dataclass

from opsdk.cli.package.settings import ContainerSettings
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.certificates.options import SelfSigned

HEALTH_PORT, METRICS_PORT, WEBHOOK_PORT = 8081, 8443, 9443
METRICS_NAMESPACES = {"metrics": "enabled"}
"""Labels of the namespaces whose pods may read the metrics."""
FLAGS = (
    "leader-elect",
    f"health-probe-bind-address=:{HEALTH_PORT}",
    f"metrics-bind-address=:{METRICS_PORT}",
    "metrics-secure-serving",
    "metrics-authentication",
)
"""Flags of the container, without dashes; the roles are made for them too."""


def webhook_flags(name: str) -> tuple[str, ...]:
    """Return the flags of an operator with webhooks: it issues certificates for their Service."""
    return (f"webhook-service={webhook_service_name(name)}",)


def webhook_service_name(name: str) -> str:
    """Return the name of the Service of an operator's webhooks."""
    return f"{name}-webhooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The workload in the cluster.

    Attributes:
        name: the name of the operator and of each object.
        namespace: the operator's namespace.
        image: the container image.
        package: the Python package, which ``python -m`` runs.
        settings: variables, resources and replicas.
        webhooks: whether it serves webhooks.
        grace_period_seconds: between SIGTERM and SIGKILL; longer than the operator's shutdown timeout.
    """

    name: str
    namespace: str
    image: str
    package: str
    settings: ContainerSettings = ContainerSettings()
    webhooks: bool = False
    grace_period_seconds: int = 40

    def __post_init__(self) -> None:
        for field in ("name", "namespace", "image", "package"):
            if not getattr(self, field):
                raise UsageError(f"the manifests need {field}: write it under [tool.opsdk] in pyproject.toml")

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the objects, and the selector of the pods."""
        return {"app.kubernetes.io/name": self.name, "app.kubernetes.io/component": "operator"}


def namespace(workload: Workload) -> JsonObject:
    """Return the namespace. It admits pods of the restricted security standard only."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": workload.namespace, "labels": labels}}


def deployment(workload: Workload) -> JsonObject:
    """Return the Deployment: probes, restricted security, and an empty /tmp as the only place to write."""
    ports = [{"name": "health", "containerPort": HEALTH_PORT}, {"name": "metrics", "containerPort": METRICS_PORT}]
    if workload.webhooks:
        ports.append({"name": "webhooks", "containerPort": WEBHOOK_PORT})
    container: JsonObject = {
        "name": "operator",
        "image": workload.image,
        "args": [f"--{flag}" for flag in (*FLAGS, *(webhook_flags(workload.name) if workload.webhooks else ()))],
        "ports": ports,
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 20},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
        "resources": workload.settings.resources,
        # The end of the log of a container that failed is then in its status, where opsdk deploy reads it.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a path in the container
    }
    if workload.settings.env:
        container["env"] = list(workload.settings.env)
    spec: JsonObject = {
        "serviceAccountName": workload.name,
        "terminationGracePeriodSeconds": workload.grace_period_seconds,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(workload, workload.name),
        "spec": {
            "replicas": workload.settings.replicas,
            "selector": {"matchLabels": workload.labels},
            "template": {"metadata": {"labels": workload.labels}, "spec": spec},
        },
    }


def metrics_service(workload: Workload) -> JsonObject:
    """Return the Service of the metrics."""
    return _service(
        workload, f"{workload.name}-metrics", {"name": "https", "port": METRICS_PORT, "targetPort": "metrics"}
    )


def webhook_service(workload: Workload) -> JsonObject:
    """Return the Service of the webhooks."""
    return _service(
        workload, webhook_service_name(workload.name), {"name": "webhooks", "port": 443, "targetPort": "webhooks"}
    )


def service_monitor(workload: Workload) -> JsonObject:
    """Return the ServiceMonitor of the Prometheus operator. It scrapes with its own token, over TLS.

    It verifies the certificate of an operator with webhooks: metrics and webhooks have the same one.
    """
    tls: JsonObject = {"insecureSkipVerify": True}  # each pod signs its own certificate
    if workload.webhooks:
        certificates = SelfSigned(service=webhook_service_name(workload.name))
        ca = {"secret": {"name": certificates.secret, "key": "ca.crt"}}
        tls = {"ca": ca, "serverName": certificates.service}
    endpoint: JsonObject = {
        "path": "/metrics",
        "port": "https",
        "scheme": "https",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "tlsConfig": tls,
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _metadata(workload, workload.name),
        "spec": {"endpoints": [endpoint], "selector": {"matchLabels": workload.labels}},
    }


def metrics_reader(workload: Workload) -> JsonObject:
    """Return the ClusterRole that lets a user read the metrics."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{workload.name}-metrics-reader"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }


def network_policy(workload: Workload) -> JsonObject:
    """Return the NetworkPolicy: only metrics and webhooks are reachable. Kubelets reach the probes in any case.

    Metrics are open to pods of namespaces with the label ``metrics: enabled``, as kubebuilder's are. Webhooks are open
    to every address, because the API server has no selector.
    """
    metrics: JsonObject = {
        "from": [{"namespaceSelector": {"matchLabels": METRICS_NAMESPACES}}],
        "ports": [{"port": METRICS_PORT, "protocol": "TCP"}],
    }
    webhooks: list[JsonObject] = [{"ports": [{"port": WEBHOOK_PORT, "protocol": "TCP"}]}] if workload.webhooks else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(workload, workload.name),
        "spec": {
            "podSelector": {"matchLabels": workload.labels},
            "policyTypes": ["Ingress"],
            "ingress": [metrics, *webhooks],
        },
    }


def _service(workload: Workload, name: str, port: JsonObject) -> JsonObject:
    spec = {"ports": [{**port, "protocol": "TCP"}], "selector": workload.labels}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(workload, name), "spec": spec}


def _metadata(workload: Workload, name: str) -> JsonObject:
    return {"name": name, "namespace": workload.namespace, "labels": workload.labels}
