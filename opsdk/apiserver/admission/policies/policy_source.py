"""Policies with their bindings, reloaded after a change of either.

Upstream: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, TypeVar, cast

import msgspec

from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.apiserver.admission.matching import RuleWithOperations, rules_of, selector_of
from opsdk.apiserver.storage.ports import LocalStorage, StorageChange
from opsdk.structured_merge.value import JsonObject

CompiledT = TypeVar("CompiledT")


class MatchCriteria(msgspec.Struct, frozen=True, kw_only=True):
    """``matchConstraints`` of a policy, or ``matchResources`` of a binding.

    Attributes:
        rules: empty matches every resource.
        excluded: resources that do not match, although `rules` have them.
    """

    rules: tuple[RuleWithOperations, ...] = ()
    excluded: tuple[RuleWithOperations, ...] = ()
    namespaces: LabelRequirements = msgspec.field(default_factory=LabelRequirements)
    objects: LabelRequirements = msgspec.field(default_factory=LabelRequirements)
    equivalent: bool = True

    @classmethod
    def of(cls, tree: JsonObject | None) -> Self:
        """Parse validated match constraints; None matches everything."""
        tree = tree or {}
        return cls(
            rules=rules_of(tree.get("resourceRules")),
            excluded=rules_of(tree.get("excludeResourceRules")),
            namespaces=selector_of(tree.get("namespaceSelector")),
            objects=selector_of(tree.get("objectSelector")),
            equivalent=tree.get("matchPolicy") != "Exact",
        )


class ParamRef(msgspec.Struct, frozen=True, kw_only=True):
    """A binding's paramRef.

    Attributes:
        namespace: empty for the namespace of the request.
        deny: ``parameterNotFoundAction: Deny``.
    """

    name: str = ""
    namespace: str = ""
    selector: LabelRequirements | None = None
    deny: bool = False

    @classmethod
    def of(cls, tree: JsonObject | None) -> Self | None:
        """Parse a validated paramRef."""
        if tree is None:
            return None
        selector = tree.get("selector")
        return cls(
            name=tree.get("name") or "",
            namespace=tree.get("namespace") or "",
            selector=None if selector is None else selector_of(selector),
            deny=tree.get("parameterNotFoundAction") == "Deny",
        )


class PolicyBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A policy binding; `actions` are the validationActions."""

    name: str
    policy: str
    criteria: MatchCriteria
    params: ParamRef | None = None
    actions: tuple[str, ...] = ()

    @classmethod
    def of(cls, obj: JsonObject) -> Self:
        """Parse a validated binding."""
        spec: JsonObject = obj.get("spec") or {}
        return cls(
            name=obj["metadata"]["name"],
            policy=spec.get("policyName") or "",
            criteria=MatchCriteria.of(spec.get("matchResources")),
            params=ParamRef.of(spec.get("paramRef")),
            actions=tuple(spec.get("validationActions") or ()),
        )


class AdmissionPolicy:
    """A validated policy. Its expressions are compiled for the first matching request."""

    def __init__(self, obj: JsonObject) -> None:
        self.name: str = obj["metadata"]["name"]
        self.spec: JsonObject = obj.get("spec") or {}
        self.criteria = MatchCriteria.of(self.spec.get("matchConstraints"))
        self.ignore_failures = self.spec.get("failurePolicy") == "Ignore"
        self.reinvoke = self.spec.get("reinvocationPolicy") == "IfNeeded"
        self._compiled: object = None
        kind = self.spec.get("paramKind")
        self.param_kind: tuple[str, str] | None = (
            None if kind is None else (str(kind.get("apiVersion") or ""), str(kind.get("kind") or ""))
        )

    def __repr__(self) -> str:
        return f"<AdmissionPolicy {self.name}>"

    def compile_with(self, compiler: Callable[[JsonObject], CompiledT]) -> CompiledT:
        """Return the compiled expressions of the policy.

        The first call runs `compiler` on the spec, and later calls return its result. The compiler is an argument
        because CEL is slow to import and most servers have no policy.
        """
        if self._compiled is None:
            self._compiled = compiler(self.spec)
        return cast("CompiledT", self._compiled)


class PolicyHook(msgspec.Struct, frozen=True):
    """A policy with its bindings."""

    policy: AdmissionPolicy
    bindings: tuple[PolicyBinding, ...]


class PolicySource:
    """The policies of one kind, each with its bindings. They are cached until one of them changes.

    A policy is compiled once for each generation.

    Args:
        prefixes: the storage prefixes of policies and of bindings.
        load: returns all current policies and all current bindings.
    """

    def __init__(
        self,
        storage: LocalStorage,
        prefixes: tuple[str, str],
        load: Callable[[], tuple[Sequence[JsonObject], Sequence[JsonObject]]],
    ) -> None:
        self._prefixes = prefixes
        self._load = load
        self._bound: tuple[PolicyHook, ...] | None = None
        self._known: dict[tuple[str, int], AdmissionPolicy] = {}
        storage.subscribe(self._changed, *prefixes)

    def __repr__(self) -> str:
        return f"<PolicySource policies under {self._prefixes[0]}>"

    def _changed(self, change: StorageChange) -> None:
        if change.key.startswith(self._prefixes):
            self._bound = None
            before, after = change.previous or {}, change.value or {}
            if before.get("spec") != after.get("spec"):
                # A restored storage may assign the same generation to another spec.
                for obj in filter(None, (before, after)):
                    self._known.pop(_version(obj), None)

    def hooks(self) -> tuple[PolicyHook, ...]:
        """Return the policies that have a binding, sorted by name."""
        if self._bound is None:
            policies, trees = self._load()
            bindings: dict[str, list[PolicyBinding]] = {}
            for obj in sorted(trees, key=_name):
                binding = PolicyBinding.of(obj)
                bindings.setdefault(binding.policy, []).append(binding)
            policies_by_version = {_version(obj): obj for obj in sorted(policies, key=_name) if _name(obj) in bindings}
            self._known = {
                version: self._known.get(version) or AdmissionPolicy(obj)
                for version, obj in policies_by_version.items()
            }
            self._bound = tuple([PolicyHook(policy, tuple(bindings[policy.name])) for policy in self._known.values()])
        return self._bound


def _name(obj: JsonObject) -> str:
    return str(obj["metadata"]["name"])


def _version(obj: JsonObject) -> tuple[str, int]:
    return str(obj["metadata"]["uid"]), int(obj["metadata"].get("generation") or 0)
