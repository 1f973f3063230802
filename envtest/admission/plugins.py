"""The admission plugins of kube-apiserver, and which of them are enabled.

Upstream: pkg/kubeapiserver/options/plugins.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Self

import msgspec

from envtest.admission.certificates import CertificateSubjectRestriction, approval, signing
from envtest.admission.default_class import default_ingress_class, default_storage_class
from envtest.admission.limit_ranger import LimitRanger
from envtest.admission.pod_resize import NodeDeclaredFeatureValidator, PodResizeValidator
from envtest.admission.pod_security.plugin import PodSecurity
from envtest.admission.pod_topology_labels import PodTopologyLabels
from envtest.admission.priority import Priority
from envtest.admission.resource_quota.plugin import ResourceQuota
from envtest.admission.runtime_class import RuntimeClass
from envtest.admission.service_account import ServiceAccount
from envtest.admission.storage import PersistentVolumeClaimResize, StorageObjectInUseProtection
from envtest.admission.tolerations import DefaultTolerationSeconds, TaintNodesByCondition
from envtest.core_server import CoreServer
from opsdk.apimachinery.gvk import GroupVersionResource
from opsdk.apiserver.admission.chain import PLUGIN_ORDER, AdmissionInterface
from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.admission.owner_references_permission import OwnerReferencesPermissionEnforcement
from opsdk.apiserver.endpoints.managed_fields import field_manager
from opsdk.apiserver.fieldmanager.field_manager import FieldManager
from opsdk.apiserver.storage.ports import KeyNotFoundError
from opsdk.errors import ConfigError
from opsdk.structured_merge.value import JsonObject

OFF: Final = frozenset({"ServiceAccount", "OwnerReferencesPermissionEnforcement"})
"""Plugins that are off by default. A bare server creates no service accounts, so `ServiceAccount` would deny pods."""


class ListerFactory:
    """Returns the listers of the objects that plugins read; all plugins share one lister for each resource."""

    def __init__(self, core: CoreServer) -> None:
        self._core = core
        self._caches: dict[str, ObjectCache] = {}

    def __repr__(self) -> str:
        return f"<ListerFactory of {', '.join(self._caches) or 'nothing'}>"

    def __call__(self, resource: str) -> ObjectCache:
        """Return the lister of ``group/resource``."""
        if resource not in self._caches:
            self._caches[resource] = ObjectCache(self._core.storage, self._core.stores[resource].prefix)
        return self._caches[resource]


Maker = Callable[[CoreServer, ListerFactory], AdmissionInterface]


def _quota(core: CoreServer, listers: ListerFactory) -> ResourceQuota:
    def owner() -> FieldManager:
        served = core.resources.find("", "v1", "resourcequotas", "status")
        assert served is not None
        return field_manager(served)

    return ResourceQuota(listers("/resourcequotas"), core.stores["/resourcequotas"], owner)


def _pod_security(core: CoreServer, _: ListerFactory) -> PodSecurity:
    namespaces, pods = core.stores["/namespaces"], core.stores["/pods"]

    def namespace(name: str) -> JsonObject | None:
        try:
            return core.storage.get_now(namespaces.key("", name))
        except KeyNotFoundError:
            return None

    return PodSecurity(namespace, pods.list_now)


def _owners(core: CoreServer, _: ListerFactory) -> OwnerReferencesPermissionEnforcement:
    def resources(api_version: str, kind: str) -> list[GroupVersionResource]:
        group, _, version = api_version.rpartition("/")
        return [
            GroupVersionResource(group, version, served.info.resource)
            for served in core.served(group, version)
            if served.info.kind == kind and not served.info.subresource
        ]

    return OwnerReferencesPermissionEnforcement(core.authorizer, resources)


_STORAGE_CLASSES: Final = "storage.k8s.io/storageclasses"
_MAKERS: Final[Mapping[str, Maker]] = {
    "LimitRanger": lambda _, listers: LimitRanger(listers("/limitranges")),
    "ServiceAccount": lambda _, listers: ServiceAccount(listers("/serviceaccounts")),
    "OwnerReferencesPermissionEnforcement": _owners,
    "PodTopologyLabels": lambda _, listers: PodTopologyLabels(listers("/nodes")),
    "TaintNodesByCondition": lambda _, __: TaintNodesByCondition(),
    "PodSecurity": _pod_security,
    "Priority": lambda _, listers: Priority(listers("scheduling.k8s.io/priorityclasses")),
    "DefaultTolerationSeconds": lambda _, __: DefaultTolerationSeconds(),
    "DefaultStorageClass": lambda _, listers: default_storage_class(listers(_STORAGE_CLASSES)),
    "StorageObjectInUseProtection": lambda _, __: StorageObjectInUseProtection(),
    "PersistentVolumeClaimResize": lambda _, listers: PersistentVolumeClaimResize(listers(_STORAGE_CLASSES)),
    "RuntimeClass": lambda _, listers: RuntimeClass(listers("node.k8s.io/runtimeclasses")),
    "CertificateApproval": lambda core, _: approval(core.authorizer),
    "CertificateSigning": lambda core, _: signing(core.authorizer),
    "CertificateSubjectRestriction": lambda _, __: CertificateSubjectRestriction(),
    "DefaultIngressClass": lambda _, listers: default_ingress_class(listers("networking.k8s.io/ingressclasses")),
    "NodeDeclaredFeatureValidator": lambda _, listers: NodeDeclaredFeatureValidator(listers("/nodes")),
    "PodResizeValidator": lambda _, listers: PodResizeValidator(listers("/nodes")),
    "ResourceQuota": _quota,
}


class PluginSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins to enable in addition to the default ones, and those to disable."""

    enabled: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()

    @classmethod
    def of(cls, enabled: str | Collection[str] = (), disabled: str | Collection[str] = ()) -> Self:
        """Parse names or comma-separated lists; `ConfigError` for names that are unknown or in both lists."""
        on, off = _names(enabled, "enable"), _names(disabled, "disable")
        if on & off:
            listed = ", ".join(sorted(on & off))
            raise ConfigError(f"[{listed}] in enable-admission-plugins and disable-admission-plugins overlapped")
        return cls(enabled=on, disabled=off)

    def runs(self, name: str) -> bool:
        """Whether a plugin runs."""
        return name not in self.disabled and (name not in OFF or name in self.enabled)


def _names(value: str | Collection[str], verb: str) -> frozenset[str]:
    names = frozenset(value.split(",") if isinstance(value, str) else value) - {""}
    for name in sorted(names - set(PLUGIN_ORDER)):
        known_names = ", ".join(sorted(filter(None, PLUGIN_ORDER)))
        raise ConfigError(f'{verb}-admission-plugins plugin "{name}" is unknown; there are: {known_names}')
    return names


def install(core: CoreServer, choice: PluginSelection) -> None:
    """Add the selected plugins to the chain, and remove the disabled ones."""
    listers = ListerFactory(core)
    for name, make in _MAKERS.items():
        if choice.runs(name):
            core.admission.add(name, make(core, listers))
    for name in choice.disabled:
        core.admission.remove(name)
