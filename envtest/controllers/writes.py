"""Writes as values: a pure plan returns them, and the controller executes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from opsdk.structured_merge.value import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A served resource and the storage prefix of its objects."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    prefix: str

    @property
    def api_version(self) -> str:
        """Return the apiVersion of the objects: ``apps/v1``, ``v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def key(self, namespace: str, name: str) -> str:
        """Return the storage key of an object."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"

    def split(self, key: str) -> tuple[str, str]:
        """Return namespace and name of a storage key."""
        rest = key.removeprefix(self.prefix)
        namespace, _, name = rest.rpartition("/")
        return namespace, name

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the request path."""
        root = f"/apis/{self.group}" if self.group else "/api"
        parts = [root, self.version]
        if self.namespaced:
            parts.extend(["namespaces", namespace])
        return "/".join([*parts, self.plural, *(p for p in (name, subresource) if p)])


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource(group="", version="v1", plural=plural, kind=kind, namespaced=namespaced, prefix=f"core/{plural}/")


def _grouped(group: str, plural: str, kind: str) -> Resource:
    return Resource(group=group, version="v1", plural=plural, kind=kind, namespaced=True, prefix=f"{group}/{plural}/")


NAMESPACES = _core("namespaces", "Namespace", namespaced=False)
NODES = _core("nodes", "Node", namespaced=False)
PODS = _core("pods", "Pod")
EVENTS = _core("events", "Event")
CONFIG_MAPS = _core("configmaps", "ConfigMap")
SECRETS = _core("secrets", "Secret")
SERVICE_ACCOUNTS = _core("serviceaccounts", "ServiceAccount")
DEPLOYMENTS = _grouped("apps", "deployments", "Deployment")
REPLICATION_CONTROLLERS = _core("replicationcontrollers", "ReplicationController")
REPLICA_SETS = _grouped("apps", "replicasets", "ReplicaSet")
STATEFUL_SETS = _grouped("apps", "statefulsets", "StatefulSet")
DAEMON_SETS = _grouped("apps", "daemonsets", "DaemonSet")
REVISIONS = _grouped("apps", "controllerrevisions", "ControllerRevision")
JOBS = _grouped("batch", "jobs", "Job")
CRON_JOBS = _grouped("batch", "cronjobs", "CronJob")
BUDGETS = _grouped("policy", "poddisruptionbudgets", "PodDisruptionBudget")
SERVICES = _core("services", "Service")
ENDPOINTS = _core("endpoints", "Endpoints")
SLICES = _grouped("discovery.k8s.io", "endpointslices", "EndpointSlice")
CLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim")
QUOTAS = _core("resourcequotas", "ResourceQuota")
VOLUMES = _core("persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES = replace(_grouped("storage.k8s.io", "storageclasses", "StorageClass"), namespaced=False)
SIGNING_REQUESTS = replace(
    _grouped("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest"), namespaced=False
)
CLUSTER_ROLES = replace(_grouped("rbac.authorization.k8s.io", "clusterroles", "ClusterRole"), namespaced=False)


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """An Event to record; ``{name}`` in the message is the written object's name, ``{error}`` the error."""

    involved_object: JsonObject
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class CreateWrite:
    """A POST request; `subresource` for requests such as ``pods/binding``, where `name` is the name of the object.

    Here and below: `success_event` is recorded when the write succeeds, `failure_event` when it is refused.
    """

    resource: Resource
    obj: JsonObject
    subresource: str = ""
    success_event: PendingEvent | None = None
    failure_event: PendingEvent | None = None


@dataclass(frozen=True, slots=True)
class UpdateWrite:
    """PUT of the whole object; a changed resource version is a conflict."""

    resource: Resource
    obj: JsonObject
    subresource: str = ""
    success_event: PendingEvent | None = None
    failure_event: PendingEvent | None = None


@dataclass(frozen=True, slots=True)
class PatchWrite:
    """A merge patch, or a `strategic` one; with ``metadata.resourceVersion`` in it, refused as `UpdateWrite` is."""

    resource: Resource
    obj: JsonObject
    patch: JsonObject
    subresource: str = ""
    strategic: bool = False
    success_event: PendingEvent | None = None
    failure_event: PendingEvent | None = None


@dataclass(frozen=True, slots=True)
class DeleteWrite:
    """DELETE with a uid precondition; `grace_period_seconds` None uses the default of the kind."""

    resource: Resource
    obj: JsonObject
    propagation: str = "Background"
    grace_period_seconds: int | None = None
    success_event: PendingEvent | None = None
    failure_event: PendingEvent | None = None


Write = CreateWrite | UpdateWrite | PatchWrite | DeleteWrite
Writes = Sequence[Write | PendingEvent]
"""Writes and Events in execution order."""
