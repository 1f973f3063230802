# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""The strategy of a built-in kind, as far as the tables and a few lists know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envtest.kinds.arrange import Arrange, arranger
from envtest.kinds.pod_preparation import drop_disabled
from envtest.tables.load import Row, types
from opsdk.apimachinery import validation
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.strategy import FieldGetter, HasStatusRules
from opsdk.structured_merge.value import JsonObject

_GENERATION = frozenset(
    {
        "cronjobs", "customresourcedefinitions", "daemonsets", "deployments", "flowschemas",
        "ingresses", "ingressclasses", "jobs", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations", "networkpolicies", "poddisruptionbudgets", "pods", "priorityclasses",
        "prioritylevelconfigurations", "replicasets", "replicationcontrollers", "statefulsets",
        "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
        "endpointslices", "podtemplates", "deviceclasses", "resourceslices",
    }
)  # fmt: skip
_RETURNS_DELETED = frozenset(
    {
        "pods", "services", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts", "namespaces",
        "resourcequotas", "podtemplates", "storageclasses", "csidrivers", "csinodes", "csistoragecapacities",
        "volumeattachments", "resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses",
    }
)  # fmt: skip
_CREATE_ON_UPDATE = frozenset(
    {
        "leases", "endpoints", "events", "limitranges", "services", "runtimeclasses", "roles", "rolebindings",
        "clusterroles", "clusterrolebindings",
    }
)  # fmt: skip
_VERSION_REQUIRED = frozenset(
    {
        "customresourcedefinitions", "leases", "poddisruptionbudgets", "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "apiservices", "runtimeclasses", "csidrivers",
        "csinodes", "csistoragecapacities", "volumeattachments",
    }
)  # fmt: skip
_TEMPLATES: Mapping[str, Sequence[str]] = {
    "podtemplates": ("template", "spec"),
    "cronjobs": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("deployments", "replicasets", "replicationcontrollers", "statefulsets", "daemonsets", "jobs"),
        ("spec", "template", "spec"),
    ),
}
"""Where the spec of a pod stands."""
_STATUS_ALONE = frozenset(
    {
        "flowschemas", "prioritylevelconfigurations", "resourceclaims", "validatingadmissionpolicies",
        "volumeattachments",
    }
)  # fmt: skip
"""Kinds whose metadata are not changed along with their status."""
_PATH_NAMES = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})


class TableStrategy(HasStatusRules):
    """Rules that follow from the tables."""

    def __init__(self, row: Row, *, has_status: bool) -> None:
        resource = row.info.resource
        self.info = row.info
        self.namespaced = row.info.namespaced
        self.has_status = has_status
        self.has_generation = resource in _GENERATION
        self.returns_deleted = resource in _RETURNS_DELETED
        self.allow_create_on_update = resource in _CREATE_ON_UPDATE
        self.allow_unconditional_update = resource not in _VERSION_REQUIRED
        self.selectable: Mapping[str, FieldGetter] = {}
        if resource in _STATUS_ALONE:
            self.status_keeps = ("labels", "annotations", "finalizers", "ownerReferences")
        self._template = _TEMPLATES.get(resource, ())
        self._arrange: Arrange | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.info.resource}>"

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Subdomains, or path segments for roles."""
        rule = validation.path_segment if self.info.resource in _PATH_NAMES else validation.dns_subdomain
        return rule(name, prefix=prefix)

    def arrange(self, obj: JsonObject) -> JsonObject:
        """In the order of the server's own type."""
        if self._arrange is None:
            self._arrange = arranger(types().name_of(self.info.group, self.info.version, self.info.kind) or "")
        made: JsonObject = self._arrange(obj)
        return made

    def initial_status(self, obj: JsonObject) -> JsonObject:
        """The status of a new object; what the client sent does not count."""
        return {}

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Status is the server's, and fields of features that are off are nobody's."""
        if self.has_status:
            obj["status"] = self.initial_status(obj)
        if self._template:
            drop_disabled(_spec_at(obj, self._template))

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Status is changed by its own resource."""
        if self.has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]
        if self._template:
            drop_disabled(_spec_at(obj, self._template), _spec_at(old, self._template))


def _spec_at(obj: JsonObject, path: Sequence[str]) -> JsonObject:
    for key in path:
        obj = obj.get(key) or {}
    return obj
