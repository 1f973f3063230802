"""Resolves the ``paramRef`` of a binding to objects.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.apiserver.admission.policies.policy_source import AdmissionPolicy, PolicyBinding
from opsdk.structured_merge.value import JsonObject


class ParamSource(Protocol):
    """A reader of the objects of one paramKind."""

    @property
    def namespaced(self) -> bool:
        """Whether the kind is namespaced."""
        ...

    async def get(self, namespace: str, name: str) -> JsonObject | None:
        """Return one object, in the version of paramKind."""
        ...

    async def select(self, namespace: str, selector: LabelRequirements) -> Sequence[JsonObject]:
        """Return the objects that a selector matches, sorted by name."""
        ...


FindParams = Callable[[str, str], ParamSource | None]
"""Returns the source of a kind by its apiVersion and kind; None if the kind is not served."""


class ConfigurationError(Exception):
    """A policy or binding is misconfigured; failurePolicy decides the outcome."""


def source_of(policy: AdmissionPolicy, find: FindParams) -> ParamSource | None:
    """Return the reader for a policy's paramKind; None if the policy has none.

    Raises:
        ConfigurationError: the kind is not served.
    """
    if policy.param_kind is None:
        return None
    version, kind = policy.param_kind
    served = find(version, kind)
    if served is None:
        kind_text = f"{version if '/' in version else f'/{version}'}, Kind={kind}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{kind_text}'")
    return served


async def collect(source: ParamSource | None, binding: PolicyBinding, namespace: str) -> Sequence[JsonObject | None]:
    """Return the params that the policy is evaluated with, one at a time; `namespace` is the request's.

    Raises:
        ConfigurationError: the paramRef contradicts the scope of the kind, or required params do not exist.
    """
    ref = binding.params
    if source is None or ref is None:
        return [None]
    param_namespace = ""
    if source.namespaced:
        param_namespace = ref.namespace or namespace
        if not param_namespace:
            text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise ConfigurationError(text)
    elif ref.namespace:
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    params: Sequence[JsonObject] = ()
    if ref.name:
        one = await source.get(param_namespace, ref.name)
        params = [] if one is None else [one]
    elif ref.selector is not None:
        params = await source.select(param_namespace, ref.selector)
    if not params and ref.deny:
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return params
