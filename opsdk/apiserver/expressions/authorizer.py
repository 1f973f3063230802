"""The ``authorizer`` variable and its functions.

Upstream: k8s.io/apiserver/pkg/cel/library/authz.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from opsdk.apimachinery import validation
from opsdk.apiserver.auth.authorization import AuthorizerAttributes, Decision
from opsdk.apiserver.auth.user import User
from opsdk.cel.declarations import CallEstimate, Library, Overload, Range, exactly, method
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.library.costs import estimate_unit, unit
from opsdk.cel.types import BOOL, STRING, Type, Value, opaque
from opsdk.cel.values import Opaque
from opsdk.structured_merge.value import JsonObject

_NAME: Final = "kubernetes.authorization"
AUTHORIZER: Final = opaque(f"{_NAME}.Authorizer")
PATH_CHECK: Final = opaque(f"{_NAME}.PathCheck")
GROUP_CHECK: Final = opaque(f"{_NAME}.GroupCheck")
RESOURCE_CHECK: Final = opaque(f"{_NAME}.ResourceCheck")
DECISION: Final = opaque(f"{_NAME}.Decision")

CHECK_COST: Final = 350_000
"""Cost of a check; the limit of one evaluation allows two."""

Ask = Callable[[AuthorizerAttributes], Decision]
"""Authorizes. It is called during an evaluation, so it is synchronous."""


class _Question(Opaque):
    """An incomplete authorizer check."""

    __slots__ = ("ask", "attributes")

    def __init__(self, ask: Ask, attributes: AuthorizerAttributes) -> None:
        self.ask = ask
        self.attributes = attributes

    def equals(self, other: Value) -> bool:
        """Compare the checks' attributes."""
        return type(self) is type(other) and self.attributes == other.attributes


class AuthorizerValue(_Question):
    """The value of ``authorizer``: a builder of checks for a user."""

    __slots__ = ()
    cel_type: ClassVar[Type] = AUTHORIZER

    @classmethod
    def of(cls, ask: Ask, user: User) -> AuthorizerValue:
        """Return the builder for a user."""
        return cls(ask, AuthorizerAttributes(user=user, verb=""))


class PathCheck(_Question):
    """A check of a non-resource path."""

    __slots__ = ()
    cel_type: ClassVar[Type] = PATH_CHECK


class GroupCheck(_Question):
    """A check of an API group."""

    __slots__ = ()
    cel_type: ClassVar[Type] = GROUP_CHECK


class ResourceCheck(_Question):
    """A check of a resource."""

    __slots__ = ()
    cel_type: ClassVar[Type] = RESOURCE_CHECK

    @classmethod
    def of(cls, ask: Ask, attributes: AuthorizerAttributes) -> ResourceCheck:
        """Return ``authorizer.requestResource``: a check of the request's own resource."""
        return cls(ask, replace(attributes, verb=""))


class DecisionValue(Opaque):
    """An authorizer's decision."""

    __slots__ = ("decision",)
    cel_type: ClassVar[Type] = DECISION

    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    def equals(self, other: Value) -> bool:
        """Compare the decisions."""
        return isinstance(other, DecisionValue) and self.decision == other.decision


def _service_account(authorizer: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    for text, check in ((name, validation.dns_subdomain), (namespace, validation.dns_label)):
        faults = check(text)
        if faults:
            what = "name" if check is validation.dns_subdomain else "namespace"
            raise CelEvaluationError(f"Invalid service account {what}: {', '.join(faults)}")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    user = User(name=f"system:serviceaccount:{namespace}:{name}", groups=groups)
    return AuthorizerValue(authorizer.ask, replace(authorizer.attributes, user=user))


def _path(authorizer: AuthorizerValue, path: str) -> PathCheck:
    if not path.startswith("/"):
        raise CelEvaluationError("path must not be empty" if not path else "path must start with a slash")
    return PathCheck(authorizer.ask, replace(authorizer.attributes, path=path, resource_request=False))


def _check(question: _Question, verb: str) -> DecisionValue:
    return DecisionValue(question.ask(replace(question.attributes, verb=verb, version="*")))


_PER_REQUIREMENT: Final = 50
"""A selector requirement costs a list and an object; the shortest has two characters."""


def _selector_range(size: Range) -> Range:
    return exactly(10) + size.scaled(0.1) + size.scaled(0.5).scaled(_PER_REQUIREMENT)


_UNIT: Final = {"cost": unit, "estimate": estimate_unit}
_ASK: Final = {"cost": lambda _, __: CHECK_COST, "estimate": lambda _, __: CallEstimate(exactly(CHECK_COST))}
_SELECT: Final = {
    "cost": lambda args, _: _selector_range(exactly(len(args[1]))).most,
    "estimate": lambda sizes, operands: CallEstimate(_selector_range(sizes.size(operands[1]))),
}


def _check_setter(name: str, attribute: str, **costs: Any) -> list[Overload]:
    def refine(check: ResourceCheck, text: str) -> ResourceCheck:
        changes: JsonObject = {attribute: text}
        return ResourceCheck(check.ask, replace(check.attributes, **changes))

    return [method(f"resourcecheck_{name}", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, refine, **costs)]


def _answer(name: str, result: Type, read: Callable[[Decision], Value]) -> list[Overload]:
    return [method(f"decision_{name}", (DECISION,), result, lambda value: read(value.decision), **_UNIT)]


AUTHORIZER_LIBRARY: Final = Library(
    functions={
        "path": [method("authorizer_path", (AUTHORIZER, STRING), PATH_CHECK, _path, **_UNIT)],
        "group": [
            method(
                "authorizer_group",
                (AUTHORIZER, STRING),
                GROUP_CHECK,
                lambda authorizer, group: GroupCheck(authorizer.ask, replace(authorizer.attributes, group=group)),
                **_UNIT,
            )
        ],
        "serviceAccount": [
            method("authorizer_serviceaccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _service_account, **_UNIT)
        ],
        "resource": [
            method(
                "groupcheck_resource",
                (GROUP_CHECK, STRING),
                RESOURCE_CHECK,
                lambda check, resource: ResourceCheck(check.ask, replace(check.attributes, resource=resource)),
                **_UNIT,
            )
        ],
        "subresource": _check_setter("subresource", "subresource", **_UNIT),
        "namespace": _check_setter("namespace", "namespace", **_UNIT),
        "name": _check_setter("name", "name", **_UNIT),
        "fieldSelector": _check_setter("fieldselector", "field_selector", **_SELECT),
        "labelSelector": _check_setter("labelselector", "label_selector", **_SELECT),
        "check": [
            method("pathcheck_check", (PATH_CHECK, STRING), DECISION, _check, **_ASK),
            method("resourcecheck_check", (RESOURCE_CHECK, STRING), DECISION, _check, **_ASK),
        ],
        "allowed": _answer("allowed", BOOL, lambda decision: decision.allowed),
        "reason": _answer("reason", STRING, lambda decision: decision.reason),
        "errored": _answer("errored", BOOL, lambda decision: bool(decision.error)),
        "error": _answer("error", STRING, lambda decision: decision.error),
    },
    types={one.name: one for one in (AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION)},
)
"""The authorizer library."""
