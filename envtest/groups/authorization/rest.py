"""SubjectAccessReviews and SelfSubjectRulesReviews.

Upstream: pkg/registry/authorization (v1.36)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envtest.groups.common.label_selectors import check_requirement
from opsdk.apiserver import api_errors
from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes, RuleResolver
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.rest import Validate, accept
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

GROUP = "authorization.k8s.io"
_MINE = ("managedFields",)
_OPERATORS = {"In": "in", "NotIn": "notin"}

Subject = Callable[[Context, JsonObject], User]


def self_subject(context: Context, spec: JsonObject) -> User:
    """Return the user of the request, as the subject of a self review."""
    return context.user


def review_subject(context: Context, spec: JsonObject) -> User:
    """Return the subject that the review names."""
    extra = {k: tuple(v or ()) for k, v in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return User(name=spec.get("user", ""), uid=spec.get("uid", ""), groups=groups, extra=extra)


class AccessReviews:
    """The store of access reviews; evaluates them with the server's authorizer.

    Args:
        subject: returns the user of a review.
        local: reviews are namespaced, and limited to their namespace.
    """

    def __init__(self, authorizer: Authorizer, *, subject: Subject, local: bool = False) -> None:
        self.strategy = Strategy()
        self._authorizer = authorizer
        self._subject = subject
        self._local = local

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        spec = obj.get("spec") or {}
        causes = list(self._check(context, obj, spec))
        if causes:
            raise api_errors.invalid("", GROUP, "", causes)
        await validate(obj, None)
        decision = await self._authorizer.authorize(attributes(self._subject(context, spec), spec))
        status: JsonObject = {"allowed": decision.allowed}
        for key, value in (
            ("denied", decision.denied),
            ("reason", decision.reason),
            ("evaluationError", decision.error),
        ):
            if value:
                status[key] = value
        return {**obj, "status": status}

    def _check(self, context: Context, obj: JsonObject, spec: JsonObject) -> Iterator[Cause]:
        """Yield what is wrong with the spec and metadata of an access review."""
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if resource is not None and path is not None:
            text = "cannot be specified in combination with resourceAttributes"
            yield api_errors.invalid_value("spec.nonResourceAttributes", _shown(path), text)
        if resource is None and path is None:
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            yield api_errors.invalid_value("spec.resourceAttributes", None, text)
        if self._subject is review_subject and not spec.get("user") and not spec.get("groups"):
            yield api_errors.invalid_value("spec.user", "", "at least one of user or group must be specified")
        yield from check_selectors(resource or {})
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        fields = (*_MINE, "namespace") if self._local else _MINE
        meta = obj.get("metadata") or {}
        if any(value for key, value in meta.items() if key not in fields):
            suffix = " except for namespace" if self._local else ""
            yield api_errors.invalid_value("metadata", meta, f"must be empty{suffix}")
        if not self._local:
            return
        if resource is not None and resource.get("namespace", "") != context.namespace:
            text = "must match metadata.namespace"
            yield api_errors.invalid_value("spec.resourceAttributes.namespace", resource.get("namespace", ""), text)
        if path is not None:
            text = "disallowed on this kind of request"
            yield api_errors.invalid_value("spec.nonResourceAttributes", _shown(path), text)


def _shown(path: JsonObject) -> JsonObject:
    """Return ``nonResourceAttributes`` with the Go names of the internal type."""
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def check_selectors(resource: JsonObject) -> Iterator[Cause]:
    """Validate the field and label selectors of a review."""
    for key in ("fieldSelector", "labelSelector"):
        selector = resource.get(key)
        if selector is None:
            continue
        where = f"spec.resourceAttributes.{key}"
        raw, requirements = selector.get("rawSelector", ""), selector.get("requirements") or ()
        if raw and requirements:
            yield api_errors.invalid_value(
                f"{where}.rawSelector", raw, "may not specified at the same time as requirements"
            )
        if not raw and not requirements:
            text = f"when {where} is specified, requirements or rawSelector is required"
            yield api_errors.required(f"{where}.requirements", text)
        for index, requirement in enumerate(requirements):
            labels = key == "labelSelector"
            yield from check_requirement(
                requirement, f"{where}.requirements[{index}]", labels=labels, unknown_operators=True
            )


def attributes(user: User, spec: JsonObject) -> AuthorizerAttributes:
    """Return the authorizer attributes of a review."""
    resource = spec.get("resourceAttributes")
    if resource is None:
        non_resource = spec.get("nonResourceAttributes") or {}
        return AuthorizerAttributes(
            user=user, verb=non_resource.get("verb", ""), resource_request=False, path=non_resource.get("path", "")
        )
    return AuthorizerAttributes(
        user=user,
        verb=resource.get("verb", ""),
        group=resource.get("group", ""),
        version=resource.get("version", "") or "*",
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
        field_selector=_selector(resource.get("fieldSelector")),
        label_selector=_selector(resource.get("labelSelector")),
    )


def _selector(selector: JsonObject | None) -> str:
    """Return a selector as text. Requirements without a text form are left out, which widens the request."""
    if selector is None:
        return ""
    if selector.get("rawSelector"):
        return str(selector["rawSelector"])
    return ",".join(t for r in selector.get("requirements") or () if (t := _requirement(r)))


def _requirement(requirement: JsonObject) -> str:
    key, values = requirement.get("key", ""), requirement.get("values") or ()
    match requirement.get("operator"):
        case "Exists":
            return str(key)
        case "DoesNotExist":
            return f"!{key}"
        case "In" | "NotIn" as operator:
            return f"{key} {_OPERATORS[operator]} ({','.join(values)})"
        case _:
            return ""


class RulesReviews:
    """The store of SelfSubjectRulesReviews: lists the user's rules in a namespace."""

    def __init__(self, resolver: RuleResolver | None) -> None:
        self.strategy = Strategy()
        self._resolver = resolver

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        namespace = (obj.get("spec") or {}).get("namespace", "")
        if not namespace:
            raise api_errors.bad_request("no namespace on request")
        await validate(obj, None)
        status: JsonObject = {"resourceRules": [], "nonResourceRules": [], "incomplete": True}
        if self._resolver is not None:
            rules = await self._resolver.rules_for(context.user, namespace)
            status["resourceRules"] = [
                {k: v for k, v in r.items() if k != "nonResourceURLs"} for r in rules.rules if r.get("resources")
            ]
            paths = [r for r in rules.rules if r.get("nonResourceURLs")]
            status["nonResourceRules"] = [{k: r[k] for k in ("verbs", "nonResourceURLs") if k in r} for r in paths]
            status["incomplete"] = rules.incomplete
            if rules.error:
                status["evaluationError"] = rules.error
        head: JsonObject = {key: obj[key] for key in ("kind", "apiVersion") if key in obj}
        return {**head, "metadata": {}, "spec": {}, "status": status}
