"""Admission policies from classes: rules and changes in CEL that the API server runs itself, without a webhook. Pure.

Upstream: k8s.io/api/admissionregistration/v1/types.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

import msgspec

from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.model import to_builtins
from opsdk.apimachinery.validation import dns_label, dns_subdomain
from opsdk.base.options import Options
from opsdk.base.place import caller_place
from opsdk.cel.types import DYN, Type
from opsdk.errors import UsageError
from opsdk.rbac.resources import resource_of
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.policy_checks import PolicyChecker
from opsdk.webhook.policy_types import field_at, type_of_kind

__all__ = ["AdmissionPolicy", "AdmissionRule", "PolicyBinding", "policy"]

T = TypeVar("T")
API_VERSION: Final = "admissionregistration.k8s.io/v1"
Action = Literal["Deny", "Warn", "Audit"]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT", "*"]
Reason = Literal["Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"]
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_POLICY: Final = "__admission_policy__"
"""The attribute of a class with its policy."""
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class AdmissionRule(msgspec.Struct, frozen=True):
    """A rule of a policy: a CEL expression that is true for allowed requests.

    >>> AdmissionRule("object.spec.replicas <= 5", message="at most 5", field_path="spec.replicas").tree()
    {'expression': 'object.spec.replicas <= 5', 'message': 'spec.replicas: at most 5'}

    Attributes:
        expression: reads ``object``, ``oldObject``, ``request``, ``namespaceObject``, ``params``, ``variables`` and
            ``authorizer``. ``object`` is null in a DELETE request, ``oldObject`` in a CREATE request.
        message: the error message, in one line; the server's default is ``failed expression: ...``.
        message_expression: a CEL expression that returns the message.
        reason: the reason of the response; the server's default is Invalid.
        field_path: the field that the message begins with, such as ``spec.replicas``.
    """

    expression: str
    message: str = ""
    message_expression: str = ""
    reason: Reason | None = None
    field_path: str = ""

    def tree(self) -> JsonObject:
        """Return the entry of ``spec.validations``."""
        prefix = f"{self.field_path}: " if self.field_path else ""
        message, computed = self.message, self.message_expression
        if prefix:
            message = prefix + (message or f"failed expression: {self.expression.strip()}")
            computed = f"{msgspec.json.encode(prefix).decode()} + ({computed})" if computed else ""
        members = {"message": message, "messageExpression": computed, "reason": self.reason}
        return {"expression": self.expression, **{name: value for name, value in members.items() if value}}


class PolicyBinding(Options, frozen=True, kw_only=True):
    """Where a policy is in force, with which parameters, and what happens to a request that breaks a rule.

    Attributes:
        name: distinguishes the bindings of one policy; empty for one of them.
        validation_actions: ``Deny`` rejects the request, ``Warn`` sends a warning to the client, ``Audit`` writes an
            audit annotation. Mutations ignore it.
        param_name: the object with the parameters; or `param_selector`.
        param_selector: all objects with these labels; a request must satisfy the rules with each of them.
        param_namespace: of the parameters; empty for the namespace of the request.
        parameter_not_found_action: what happens without parameters: ``Deny`` lets the failure policy decide.
        object_selector: only objects with these labels; None for all.
        namespace_selector: only objects in namespaces with these labels; None for all.
    """

    name: str = ""
    validation_actions: Sequence[Action] = ("Deny",)
    param_name: str = ""
    param_selector: LabelSelector | None = None
    param_namespace: str = ""
    parameter_not_found_action: Literal["Deny", "Allow"] = "Deny"
    object_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None

    @property
    def has_params(self) -> bool:
        """Whether it selects parameters."""
        return bool(self.param_name) or self.param_selector is not None

    def spec(self, policy_name: str, *, mutating: bool) -> JsonObject:
        """Return the spec of a binding object."""
        spec: JsonObject = {"policyName": policy_name}
        if self.has_params:
            spec["paramRef"] = {"parameterNotFoundAction": self.parameter_not_found_action}
            spec["paramRef"] |= {"name": self.param_name} if self.param_name else {}
            spec["paramRef"] |= {"namespace": self.param_namespace} if self.param_namespace else {}
            if self.param_selector is not None:
                spec["paramRef"]["selector"] = to_builtins(self.param_selector)
        if self.object_selector is not None or self.namespace_selector is not None:
            spec["matchResources"] = _selectors(self.namespace_selector, self.object_selector, "Equivalent")
        return spec if mutating else {**spec, "validationActions": list(self.validation_actions)}


class AdmissionPolicy(Options, frozen=True, kw_only=True):
    """A policy of a kind; `policy` makes it from a class.

    With `rules` or `audit_annotations`, the API server gets a ValidatingAdmissionPolicy; with `mutations`, a
    MutatingAdmissionPolicy; and a binding of each for each of `bindings`.

    Attributes:
        name: a DNS label, unique in the operator.
        kind: whose objects it is about.
        rules: each must be true.
        mutations: CEL expressions, run in order: ``Object{...}`` with the fields to set, or ``[JSONPatch{...}]``.
        operations: of ``CREATE``, ``UPDATE``, ``DELETE``, ``CONNECT`` and ``*``.
        subresources: ``status`` and so on, besides the object itself. With another one than ``status``, the fields of
            the object are not checked.
        variables: CEL expressions by name; a later one may use the earlier ones, as ``variables.name``.
        match_conditions: CEL expressions by name; the policy applies if all of them are true.
        failure_policy: what happens if an expression fails, such as for a missing field, or parameters are missing:
            ``Fail`` rejects the request, ``Ignore`` lets it pass.
        params: the kind of the parameters; each binding then selects them.
        bindings: where it is in force.
        object_selector: only objects with these labels; None for all.
        namespace_selector: only objects in namespaces with these labels; None for all.
        match_policy: ``Equivalent`` converts objects of other versions for the policy.
        audit_annotations: CEL expressions by key; a text becomes an audit annotation of the request, null does not.
        reinvocation_policy: ``IfNeeded`` runs the mutations again when a later plugin has changed the object.

    Raises:
        UsageError: an expression does not fit the schema, or the server would reject the policy. The message has all
            problems.
    """

    name: str
    kind: Kind[Any]
    rules: Sequence[AdmissionRule] = ()
    mutations: Sequence[str] = ()
    operations: Sequence[Operation] = ("CREATE", "UPDATE")
    subresources: Sequence[str] = ()
    variables: Mapping[str, str] = _NOTHING
    match_conditions: Mapping[str, str] = _NOTHING
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    params: KindLike[Any] | None = None
    bindings: Sequence[PolicyBinding] = (PolicyBinding(),)
    object_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent"
    audit_annotations: Mapping[str, str] = _NOTHING
    reinvocation_policy: Literal["Never", "IfNeeded"] = "Never"
    _json_patches: frozenset[int] = frozenset()
    """The places of the mutations that are JSON patches; set by the check."""

    def __post_init__(self) -> None:
        problems = list(_shape_problems(self)) or [*_declaration_problems(self), *_binding_problems(self)]
        if not problems:
            checker, patches = _checked(self)
            problems = [*checker.problems, *_field_path_problems(self)]
            msgspec.structs.force_setattr(self, "_json_patches", patches)
        if problems:
            raise UsageError(f"the policy {self.name} of {self.kind.name} is not valid:\n" + "\n".join(problems))

    @property
    def param_kind(self) -> Kind[Any] | None:
        """The kind of the parameters, or None."""
        return kind_of(self.params) if self.params is not None else None

    def objects(self, operator: str) -> list[JsonObject]:
        """Return the policies and their bindings, to create or apply.

        The names begin with the operator's name and a dot. The rest has no dot, so operators cannot collide.

        Args:
            operator: the name of the operator.

        Raises:
            UsageError: the names are no DNS subdomains.
        """
        name = f"{operator}.{self.name}"
        if problems := dns_subdomain(name):
            raise UsageError(f"the name {name!r} of a policy: {problems[0]}")
        sorts = [(False, bool(self.rules or self.audit_annotations)), (True, bool(self.mutations))]
        return [tree for mutating, is_used in sorts if is_used for tree in self._objects(name, mutating=mutating)]

    def _objects(self, name: str, *, mutating: bool) -> Iterator[JsonObject]:
        kind = f"{'Mutating' if mutating else 'Validating'}AdmissionPolicy"
        spec = self._mutating_spec() if mutating else self._validating_spec()
        yield {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
        for binding in self.bindings:
            bound = f"{name}-{binding.name}" if binding.name else name
            yield {
                "apiVersion": API_VERSION,
                "kind": f"{kind}Binding",
                "metadata": {"name": bound},
                "spec": binding.spec(name, mutating=mutating),
            }

    # -------------------------------------------------------------- specs
    def _validating_spec(self) -> JsonObject:
        spec = self._common_spec()
        if self.rules:
            spec["validations"] = [rule.tree() for rule in self.rules]
        if self.audit_annotations:
            annotations = self.audit_annotations.items()
            spec["auditAnnotations"] = [{"key": key, "valueExpression": text} for key, text in annotations]
        return spec

    def _mutating_spec(self) -> JsonObject:
        mutations: list[JsonObject] = []
        for index, text in enumerate(self.mutations):
            is_patch = index in self._json_patches
            patch_type, key = ("JSONPatch", "jsonPatch") if is_patch else ("ApplyConfiguration", "applyConfiguration")
            mutations.append({"patchType": patch_type, key: {"expression": text}})
        return {**self._common_spec(), "mutations": mutations, "reinvocationPolicy": self.reinvocation_policy}

    def _common_spec(self) -> JsonObject:
        """Return what the specs of both kinds have, with the values that the server sets."""
        info = resource_of(self.kind)
        rule = {
            "operations": list(self.operations),
            "apiGroups": [info.group],
            "apiVersions": [self.kind.gvk.version],
            "resources": [info.resource, *(f"{info.resource}/{each}" for each in self.subresources)],
            "scope": "Namespaced" if info.namespaced else "Cluster",
        }
        selectors = _selectors(self.namespace_selector, self.object_selector, self.match_policy)
        spec: JsonObject = {
            "failurePolicy": self.failure_policy,
            "matchConstraints": {**selectors, "resourceRules": [rule]},
        }
        if (params := self.param_kind) is not None:
            spec["paramKind"] = {"apiVersion": params.api_version, "kind": params.name}
        for key, texts in (("variables", self.variables), ("matchConditions", self.match_conditions)):
            if texts:
                spec[key] = [{"name": name, "expression": text} for name, text in texts.items()]
        return spec

    def __repr__(self) -> str:
        return f"<AdmissionPolicy {self.name} of {self.kind.name}>"


def policy(kind: KindLike[Any], *, name: str = "") -> Callable[[type[T]], type[T]]:
    """Decorator: the class declares a policy about a kind. Its attributes are those of `AdmissionPolicy`.

    Args:
        kind: a class, whose fields the CEL is checked against; or a `Kind` without one.
        name: of the policy; default: the name of the class in lower case, with dashes.

    Raises:
        UsageError: see `AdmissionPolicy`; the message has file and line.

    >>> from opsdk.api.apps.v1 import Deployment
    >>> @policy(Deployment)
    ... class ReplicaLimit:
    ...     rules = [AdmissionRule("!has(object.spec.replicas) || object.spec.replicas <= 5", message="at most 5")]
    >>> policy_of(ReplicaLimit)
    <AdmissionPolicy replica-limit of Deployment>
    """
    place = caller_place()

    def declare(cls: type[T]) -> type[T]:
        try:
            policy_name = name or _WORDS.sub("-", cls.__name__).lower()
            setattr(cls, _POLICY, AdmissionPolicy(name=policy_name, kind=kind_of(kind), **_attributes(cls)))
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None
        return cls

    return declare


def policy_of(cls: type) -> AdmissionPolicy:
    """Return the policy that a class declares. Raises `UsageError` for a class that `policy` does not decorate."""
    declared = getattr(cls, "__dict__", {}).get(_POLICY)
    if not isinstance(declared, AdmissionPolicy):
        raise UsageError(f"{getattr(cls, '__name__', cls)!r} declares no policy: decorate the class with @policy(Kind)")
    return declared


def _attributes(cls: type) -> dict[str, Any]:
    """Return the attributes of a class and its base classes. Raises `UsageError` for one that no policy has."""
    attributes: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        attributes |= {key: value for key, value in vars(base).items() if not key.startswith("__")}
    if unknown := sorted(attributes.keys() - _ATTRIBUTES):
        choices = ", ".join(sorted(_ATTRIBUTES))
        raise UsageError(f"the policy {cls.__name__} has no attribute {unknown[0]}: choose among {choices}")
    return attributes


def policy_objects(policies: Iterable[AdmissionPolicy], operator: str) -> list[JsonObject]:
    """Return the objects of the policies of an operator. Raises `UsageError` if two have one name."""
    objects: dict[tuple[str, str], JsonObject] = {}
    for each in policies:
        for tree in each.objects(operator):
            key = (tree["kind"], tree["metadata"]["name"])
            if key in objects:
                raise UsageError(f"two policies make the {key[0]} {key[1]}: pass name= to one of their decorators")
            objects[key] = tree
    return list(objects.values())


_ATTRIBUTES: Final = frozenset(AdmissionPolicy.__struct_fields__) - {"name", "kind", "_json_patches"}


def _selectors(namespaces: LabelSelector | None, objects: LabelSelector | None, match_policy: str) -> JsonObject:
    """Return the selectors of a policy or binding, with the values that the server sets."""
    return {
        "matchPolicy": match_policy,
        "namespaceSelector": to_builtins(namespaces) if namespaces is not None else {},
        "objectSelector": to_builtins(objects) if objects is not None else {},
    }


# ------------------------------------------------------------------ checks
_LISTS: Final = ("rules", "mutations", "operations", "subresources", "bindings")
_DICTS: Final = ("variables", "match_conditions", "audit_annotations")
_MEMBERS: Final = (("rules", AdmissionRule), ("mutations", str), ("bindings", PolicyBinding))


def _shape_problems(policy: AdmissionPolicy) -> Iterator[str]:
    """Yield the attributes of another type."""
    for key in _LISTS:
        if isinstance(value := getattr(policy, key), str) or not isinstance(value, Sequence):
            yield f"{key} takes a list, not {value!r}"
    for key in _DICTS:
        if not isinstance(value := getattr(policy, key), Mapping):
            yield f"{key} takes a dict with an expression for each name, not {value!r}"
    for key, cls in _MEMBERS:
        members = getattr(policy, key)
        others = [each for each in members if not isinstance(each, cls)] if isinstance(members, Sequence) else []
        yield from (f"{key} has {each!r}: each is a {cls.__name__}" for each in others)


def _declaration_problems(policy: AdmissionPolicy) -> Iterator[str]:
    """Yield what is wrong with the parts that are no expressions."""
    yield from (f"the name {policy.name!r}: {text}" for text in dns_label(policy.name))
    for rule in policy.rules:
        if "\n" in rule.message.strip():
            yield f"the message {rule.message!r} must be one line"
    if not (policy.rules or policy.mutations or policy.audit_annotations):
        yield "it has neither rules nor mutations: declare rules = [AdmissionRule(...)]"
    if not policy.operations:
        yield 'operations is empty: write operations = ["CREATE", "UPDATE"]'
    if policy.mutations and "DELETE" in policy.operations:
        yield "mutations cannot change an object that is deleted: leave DELETE out, or declare a policy for the rules"
    if not policy.bindings:
        yield "bindings is empty, so the policy has no effect: leave it out, or write bindings = [PolicyBinding()]"


def _binding_problems(policy: AdmissionPolicy) -> Iterator[str]:
    """Yield what is wrong with the bindings."""
    names: set[str] = set()
    for binding in policy.bindings:
        where = f"the binding {binding.name!r}" if binding.name else "the binding"
        for text in dns_label(binding.name) if binding.name else ():
            yield f"{where}: {text}"
        if binding.name in names:
            yield f"{where} occurs twice: give each a name"
        names.add(binding.name)
        actions = list(binding.validation_actions)
        if not actions or len(set(actions)) < len(actions) or {"Deny", "Warn"} <= set(actions):
            yield f"{where} has validation_actions {actions}: choose Deny or Warn, and perhaps Audit"
        if policy.params is None and binding.has_params:
            yield f"{where} selects parameters, but the policy has no kind of them: declare params = ConfigMap"
        if policy.params is not None and not binding.has_params:
            yield f"{where} selects no parameters: set param_name or param_selector"
        if binding.param_name and binding.param_selector is not None:
            yield f"{where} has both param_name and param_selector: remove one"


def _types(policy: AdmissionPolicy) -> dict[str, Type]:
    """Return the types of the variables that come from schemas."""
    is_other = any(name != "status" for name in policy.subresources) or "CONNECT" in policy.operations
    type_ = DYN if is_other else type_of_kind(policy.kind)
    types = {"object": type_, "oldObject": type_}
    return types if policy.param_kind is None else {**types, "params": type_of_kind(policy.param_kind)}


def _checked(policy: AdmissionPolicy) -> tuple[PolicyChecker, frozenset[int]]:
    """Return the checked expressions, and the places of the mutations that are JSON patches."""
    checker = PolicyChecker(_types(policy))
    for name, text in policy.variables.items():
        checker.variable(name, text)
    for name, text in policy.match_conditions.items():
        checker.condition(name, text)
    for index, rule in enumerate(policy.rules):
        checker.rule(index, rule.expression, rule.message_expression)
    for key, text in policy.audit_annotations.items():
        checker.annotation(key, text)
    return checker, frozenset(index for index, text in enumerate(policy.mutations) if checker.mutation(index, text))


def _field_path_problems(policy: AdmissionPolicy) -> Iterator[str]:
    type_ = _types(policy)["object"]
    for index, rule in enumerate(policy.rules):
        if rule.field_path and field_at(type_, rule.field_path) is None:
            yield f"rules[{index}]: the field_path {rule.field_path!r} is not a field of {policy.kind.name}"
