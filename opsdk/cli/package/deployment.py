"""The objects around an operator's container: namespace, Deployments, Services, disruption budgets, policies. Pure.

Upstream: sigs.k8s.io/kubebuilder/pkg/plugins/common/kustomize/v2/scaffolds (config/manager, prometheus, network-policy)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opsdk.cli.package.settings import ContainerSettings
from opsdk.errors import UsageError
from opsdk.monitoring.rules import INTERVAL
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
"""Flags of every container, without dashes."""


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
        if self.settings.webhook_replicas and not self.webhooks:
            raise UsageError("webhook-replicas is set, but the operator has no webhooks: remove it from [tool.opsdk]")
        for field in ("name", "namespace", "image", "package"):
            if not getattr(self, field):
                raise UsageError(f"the manifests need {field}: write it under [tool.opsdk] in pyproject.toml")

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the objects, and the selector of the operator's pods."""
        return {"app.kubernetes.io/name": self.name, "app.kubernetes.io/component": "operator"}

    @property
    def webhook_labels(self) -> dict[str, str]:
        """The selector of the pods that serve webhooks."""
        return {**self.labels, "app.kubernetes.io/component": "webhooks"} if self.has_webhook_pods else self.labels

    @property
    def all_labels(self) -> dict[str, str]:
        """The selector of all pods."""
        return {"app.kubernetes.io/name": self.name} if self.has_webhook_pods else self.labels

    @property
    def has_webhook_pods(self) -> bool:
        """Whether webhooks have a Deployment of their own."""
        return self.settings.webhook_replicas > 0

    def role_flags(self, watch_namespaces: Sequence[str]) -> tuple[str, ...]:
        """Return the flags for which the roles are made. All containers have one service account."""
        return (*FLAGS, *_watch_flags(watch_namespaces), *(webhook_flags(self.name) if self.webhooks else ()))

    def flags(self) -> tuple[str, ...]:
        """Return the flags of the operator's container, without dashes."""
        if not self.has_webhook_pods:
            return self.role_flags(self.settings.watch_namespaces)
        return (*FLAGS, *_watch_flags(self.settings.watch_namespaces), "components=controllers")

    def webhook_pod_flags(self) -> tuple[str, ...]:
        """Return the flags of the container that serves webhooks only. It has no leader."""
        flags = (flag for flag in FLAGS if flag != "leader-elect")
        watch = _watch_flags(self.settings.watch_namespaces)
        return (*flags, *watch, "components=webhooks", *webhook_flags(self.name))


def _watch_flags(namespaces: Sequence[str]) -> tuple[str, ...]:
    return (f"watch-namespaces={','.join(namespaces)}",) if namespaces else ()


def namespace(workload: Workload) -> JsonObject:
    """Return the namespace. It admits pods of the restricted security standard only."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": workload.namespace, "labels": labels}}


def deployments(workload: Workload) -> list[JsonObject]:
    """Return the Deployments: probes, restricted security, and an empty /tmp as the only place to write.

    With `ContainerSettings.webhook_replicas` there are two: one for the controllers and one for the webhooks.
    """
    flags, serves = workload.flags(), workload.webhooks and not workload.has_webhook_pods
    trees = [_deployment(workload, workload.name, flags, workload.settings.replicas, workload.labels, webhooks=serves)]
    if workload.has_webhook_pods:
        flags, replicas = workload.webhook_pod_flags(), workload.settings.webhook_replicas
        name = webhook_service_name(workload.name)
        trees.append(_deployment(workload, name, flags, replicas, workload.webhook_labels, webhooks=True))
    return trees


def _deployment(
    workload: Workload, name: str, flags: Sequence[str], replicas: int, labels: dict[str, str], *, webhooks: bool
) -> JsonObject:
    pod: JsonObject = {
        **workload.settings.pod,
        "serviceAccountName": workload.name,
        "terminationGracePeriodSeconds": workload.grace_period_seconds,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(workload, flags, webhooks=webhooks)],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    if spread := pod.get("topologySpreadConstraints"):
        # Without a selector, a constraint selects no pods.
        pod["topologySpreadConstraints"] = with_selectors(spread, workload)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        # Copies: YAML would show one dictionary at two places as an anchor and an alias.
        "metadata": {**_metadata(workload, name), "labels": {**labels}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {**labels}},
            "template": {"metadata": {"labels": {**labels}}, "spec": pod},
        },
    }


def with_selectors(constraints: Sequence[JsonObject], workload: Workload) -> list[JsonObject]:
    """Return topology spread constraints, each with a selector of all pods unless it has one."""
    return [{"labelSelector": {"matchLabels": workload.all_labels}, **each} for each in constraints]


def _container(workload: Workload, flags: Sequence[str], *, webhooks: bool) -> JsonObject:
    ports = [{"name": "health", "containerPort": HEALTH_PORT}, {"name": "metrics", "containerPort": METRICS_PORT}]
    if webhooks:
        ports.append({"name": "webhooks", "containerPort": WEBHOOK_PORT})
    container: JsonObject = {
        "name": "operator",
        "image": workload.image,
        "args": [f"--{flag}" for flag in flags],
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
    return container


def disruption_budgets(workload: Workload) -> list[JsonObject]:
    """Return a PodDisruptionBudget for each Deployment with more than one pod: a drain evicts one pod at a time."""
    counts = [(workload.name, workload.settings.replicas, workload.labels)]
    if workload.has_webhook_pods:
        name = webhook_service_name(workload.name)
        counts.append((name, workload.settings.webhook_replicas, workload.webhook_labels))
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": _metadata(workload, name),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        }
        for name, replicas, labels in counts
        if replicas > 1
    ]


def metrics_service(workload: Workload) -> JsonObject:
    """Return the Service of the metrics."""
    port: JsonObject = {"name": "https", "port": METRICS_PORT, "targetPort": "metrics"}
    return _service(workload, f"{workload.name}-metrics", port, workload.all_labels)


def webhook_service(workload: Workload) -> JsonObject:
    """Return the Service of the webhooks."""
    port: JsonObject = {"name": "webhooks", "port": 443, "targetPort": "webhooks"}
    return _service(workload, webhook_service_name(workload.name), port, workload.webhook_labels)


def service_monitor(workload: Workload) -> JsonObject:
    """Return the ServiceMonitor of the Prometheus operator. It scrapes with its own token, over TLS.

    It verifies the certificate of pods with webhooks: metrics and webhooks have the same one.
    """
    tls: JsonObject = {"insecureSkipVerify": True}  # pods without webhooks sign their own certificates
    if workload.webhooks and not workload.has_webhook_pods:
        certificates = SelfSigned(service=webhook_service_name(workload.name))
        ca = {"secret": {"name": certificates.secret, "key": "ca.crt"}}
        tls = {"ca": ca, "serverName": certificates.service}
    endpoint: JsonObject = {
        "interval": f"{INTERVAL}s",  # the rules of `opsdk generate monitoring` look at one minute
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
            "podSelector": {"matchLabels": workload.all_labels},
            "policyTypes": ["Ingress"],
            "ingress": [metrics, *webhooks],
        },
    }


def _service(workload: Workload, name: str, port: JsonObject, selector: dict[str, str]) -> JsonObject:
    spec = {"ports": [{**port, "protocol": "TCP"}], "selector": selector}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(workload, name), "spec": spec}


def _metadata(workload: Workload, name: str) -> JsonObject:
    return {"name": name, "namespace": workload.namespace, "labels": workload.labels}
