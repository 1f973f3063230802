"""The admission chain: plugins in kube-apiserver's order, and a second mutating round on request.

Upstream: k8s.io/apiserver/pkg/admission/chain.go, k8s.io/kubernetes/pkg/kubeapiserver/options/plugins.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.plugin import Plugin, resource_path
from opsdk.apiserver.resources import ResourceInfo

PLUGIN_ORDER = (
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "PodTopologyLabels",
    "NodeDeclaredFeatureValidator",
    "PodResizeValidator",
    "",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
)
"""The order of plugins in both rounds. Plugins with other names run at the empty entry."""


class AdmissionInterface(Protocol):
    """An admission plugin."""

    async def mutate(self, attributes: Attributes) -> None:
        """Replace ``attributes.obj``. Raises `ApiError` to reject the request."""
        ...

    async def validate(self, attributes: Attributes) -> None:
        """Raise `ApiError` to reject the request."""
        ...


Phase = Callable[[Attributes], Awaitable[None]]
_BOUND_LIMIT = 4096
"""Most resources with cached phases. Custom resources can be deleted, so the cache is bounded."""


class _Phases(NamedTuple):
    """The plugin methods that apply to one resource, in order."""

    mutate: tuple[Phase, ...]
    validate: tuple[Phase, ...]


class Chain:
    """The plugins in the order of `PLUGIN_ORDER`; mutating plugins run again if one requests reinvocation."""

    def __init__(self, plugins: Mapping[str, AdmissionInterface] | None = None) -> None:
        self._named: dict[str, AdmissionInterface] = {}
        self._bound: dict[tuple[str, str, str], _Phases] = {}
        for name, plugin in (plugins or {}).items():
            self.add(name, plugin)

    def __repr__(self) -> str:
        return f"<AdmissionChain of {', '.join(self._named) or 'nothing'}>"

    @property
    def plugins(self) -> Mapping[str, AdmissionInterface]:
        """The plugins by name, in their order."""
        return MappingProxyType(self._named)

    def add(self, name: str, plugin: AdmissionInterface) -> None:
        """Add a plugin at its place in the order; it replaces a plugin of the same name."""
        self._named[name] = plugin
        self._sort()

    def remove(self, name: str) -> None:
        """Remove a plugin if it is present."""
        self._named.pop(name, None)
        self._sort()

    def _sort(self) -> None:
        places = {name: PLUGIN_ORDER.index(name if name in PLUGIN_ORDER else "") for name in self._named}
        self._named = dict(sorted(self._named.items(), key=lambda item: places[item[0]]))
        self._bound.clear()

    def _phases(self, info: ResourceInfo) -> _Phases:
        """Return the methods that apply to a resource. The result is cached, because most plugins do not apply."""
        key = (info.group, info.resource, info.subresource)
        phases = self._bound.get(key)
        if phases is None:
            if len(self._bound) >= _BOUND_LIMIT:
                self._bound.clear()
            path = resource_path(info)
            plugins = [plugin for plugin in self._named.values() if _handles_resource(plugin, path)]
            phases = self._bound[key] = _Phases(
                mutate=tuple(p.mutate for p in plugins if type(p).mutate is not Plugin.mutate),
                validate=tuple(p.validate for p in plugins if type(p).validate is not Plugin.validate),
            )
        return phases

    async def mutate(self, attributes: Attributes) -> None:
        """Run the mutating phase of each plugin in order, again if one requests reinvocation."""
        phases = self._phases(attributes.served.info)
        for mutate in phases.mutate:
            await mutate(attributes)
        if attributes.reinvoke and not attributes.is_reinvoke:
            attributes.is_reinvoke = True
            for mutate in phases.mutate:
                await mutate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Run the validating phase of each plugin in order."""
        for validate in self._phases(attributes.served.info).validate:
            await validate(attributes)


def _handles_resource(plugin: AdmissionInterface, path: str) -> bool:
    return not isinstance(plugin, Plugin) or plugin.resources is None or path in plugin.resources
