"""The admission chain: plugins in kube-apiserver's order, and a second mutating round on request.

Upstream: k8s.io/apiserver/pkg/admission/chain.go, k8s.io/kubernetes/pkg/kubeapiserver/options/plugins.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from opsdk.aio.clock import loop_time
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.plugin import Plugin, resource_path
from opsdk.apiserver.metrics import AdmissionMetrics

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
Observe = Callable[[float], None]
_ADMIT: Final = "admit"
_VALIDATE: Final = "validate"
_BOUND_LIMIT = 4096
"""Most resources with cached phases. Custom resources can be deleted, so the cache is bounded."""


class _Call(NamedTuple):
    """The call of a plugin in one step: its name, its method, and what gets its latency."""

    name: str
    phase: Phase
    observe: Observe


class _Step(NamedTuple):
    """What one step does for one resource and operation, in order."""

    calls: tuple[_Call, ...]
    observe: Observe


class _Steps(NamedTuple):
    """Both steps of admission."""

    mutate: _Step
    validate: _Step


class Chain:
    """The plugins in the order of `PLUGIN_ORDER`; mutating plugins run again if one requests reinvocation.

    Args:
        plugins: by name.

    Attributes:
        metrics: the latencies.
    """

    def __init__(self, plugins: Mapping[str, AdmissionInterface] | None = None) -> None:
        self.metrics = AdmissionMetrics()
        self._named: dict[str, AdmissionInterface] = {}
        self._bound: dict[tuple[str, str, str, str], _Steps] = {}
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

    def _steps(self, attributes: Attributes) -> _Steps:
        """Return what applies to a request. The result is cached, because most plugins do not apply to a resource."""
        info, operation = attributes.served.info, attributes.operation
        key = (info.group, info.resource, info.subresource, operation)
        steps = self._bound.get(key)
        if steps is None:
            if len(self._bound) >= _BOUND_LIMIT:
                self._bound.clear()
            path = resource_path(info)
            plugins = [(name, plugin) for name, plugin in self._named.items() if _handles_resource(plugin, path)]
            mutating = [(name, p.mutate) for name, p in plugins if type(p).mutate is not Plugin.mutate]
            validating = [(name, p.validate) for name, p in plugins if type(p).validate is not Plugin.validate]
            steps = self._bound[key] = _Steps(
                mutate=self._step(_ADMIT, operation, mutating), validate=self._step(_VALIDATE, operation, validating)
            )
        return steps

    def _step(self, step: str, operation: str, phases: Sequence[tuple[str, Phase]]) -> _Step:
        metrics = self.metrics
        calls = [_Call(name, phase, metrics.of_plugin(name, step, operation)) for name, phase in phases]
        return _Step(tuple(calls), metrics.of_step(step, operation))

    async def mutate(self, attributes: Attributes) -> None:
        """Run the mutating phase of each plugin in order, again if one requests reinvocation."""
        await self._run(_ADMIT, self._steps(attributes).mutate, attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Run the validating phase of each plugin in order."""
        await self._run(_VALIDATE, self._steps(attributes).validate, attributes)

    async def _run(self, kind: str, step: _Step, attributes: Attributes) -> None:
        clock, plugin, calls = loop_time(), "", step.calls
        began = last = clock()
        try:
            while calls:
                for plugin, phase, observe in calls:  # noqa: B007 - the one that raises
                    await phase(attributes)
                    now = clock()
                    observe(now - last)
                    last = now
                calls = ()
                if kind is _ADMIT and attributes.reinvoke and not attributes.is_reinvoke:
                    attributes.is_reinvoke, calls = True, step.calls
        except Exception:
            now, operation = clock(), attributes.operation
            self.metrics.of_plugin(plugin, kind, operation, rejected=True)(now - last)
            self.metrics.of_step(kind, operation, rejected=True)(now - began)
            raise
        step.observe(last - began)


def _handles_resource(plugin: AdmissionInterface, path: str) -> bool:
    return not isinstance(plugin, Plugin) or plugin.resources is None or path in plugin.resources
