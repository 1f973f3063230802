"""The requests that users send, and the smallest RBAC roles that allow them.

`ObservingAuthorizer` records each authorization request. Object names are not recorded, because a role with names fails
for the next object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes, Decision, ResolvedRules, RuleResolver
from opsdk.apiserver.auth.rbac import SERVICE_ACCOUNT, PolicyRule
from opsdk.apiserver.auth.user import User
from opsdk.structured_merge.value import JsonObject, JsonValue

_LIMIT = 10_000
_GROUP = "rbac.authorization.k8s.io"
_PATHS = (
    "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
    "/version/",
)  # fmt: skip
FOR_EVERYBODY = (
    PolicyRule(verbs=("get",), paths=_PATHS),
    PolicyRule(
        verbs=("create",),
        groups=("authorization.k8s.io",),
        resources=("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
    ),
    PolicyRule(verbs=("create",), groups=("authentication.k8s.io",), resources=("selfsubjectreviews",)),
)
"""The default rules of all authenticated users; minimal roles omit them."""


class ObservedUse(msgspec.Struct, order=True, frozen=True, kw_only=True):
    """A verb on a resource of a group in a namespace (empty: everywhere), or on a path."""

    user: str
    verb: str
    namespace: str = ""
    group: str = ""
    resource: str = ""
    path: str = ""

    @classmethod
    def of(cls, attributes: AuthorizerAttributes) -> ObservedUse:
        """Return the use that the attributes describe."""
        user = attributes.user.name
        if not attributes.resource_request:
            return cls(user=user, verb=attributes.verb, path=attributes.path)
        resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
        # A request for a Namespace has that namespace in its attributes, but the object is cluster-scoped.
        namespace = "" if attributes.resource == "namespaces" and not attributes.group else attributes.namespace
        return cls(user=user, verb=attributes.verb, namespace=namespace, group=attributes.group, resource=resource)

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {what}" + (f" in {self.namespace}" if self.namespace else "")


def minimal_rules(uses: Iterable[ObservedUse]) -> list[PolicyRule]:
    """Return rules that allow exactly these uses, in any namespace; resources with equal verbs share a rule."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for use in uses:
        verbs.setdefault((use.group, use.resource, use.path), set()).add(use.verb)
    together: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for (group, resource, path), verb_set in sorted(verbs.items()):
        together.setdefault((group, bool(path), tuple(sorted(verb_set))), []).append(path or resource)
    return [
        PolicyRule(verbs=words, paths=tuple(names))
        if is_path
        else PolicyRule(verbs=words, groups=(group,), resources=tuple(names))
        for (group, is_path, words), names in together.items()
    ]


class UserRules(msgspec.Struct, frozen=True, kw_only=True):
    """The allowed and denied requests of one user."""

    user: str
    allowed: frozenset[ObservedUse] = frozenset()
    denied: frozenset[ObservedUse] = frozenset()

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of the requests; the empty name means cluster scope or all namespaces."""
        return sorted({use.namespace for use in self.allowed})

    def role(self, name: str, namespace: str) -> JsonObject:
        """Return the smallest Role for the requests in a namespace."""
        rules = minimal_rules(u for u in self.allowed if u.namespace == namespace)
        return _object("Role", name, namespace, rules=[r.wire() for r in rules])

    def cluster_role(self, name: str) -> JsonObject:
        """Return the smallest ClusterRole for cluster-scoped requests and requests across namespaces."""
        rules = minimal_rules(u for u in self.allowed if not u.namespace)
        return _object("ClusterRole", name, rules=[r.wire() for r in rules])

    def manifests(self, name: str) -> list[JsonObject]:
        """Return roles and bindings for all requests, ready to be applied."""
        subject: JsonObject = {"apiGroup": _GROUP, "kind": "User", "name": self.user}
        if self.user.startswith(SERVICE_ACCOUNT):
            home, _, account = self.user.removeprefix(SERVICE_ACCOUNT).partition(":")
            subject = {"kind": "ServiceAccount", "name": account, "namespace": home}
        manifests: list[JsonObject] = []
        for namespace in self.namespaces:
            role = self.role(name, namespace) if namespace else self.cluster_role(name)
            ref = {"apiGroup": _GROUP, "kind": role["kind"], "name": name}
            content = {"roleRef": ref, "subjects": [subject]}
            manifests += [role, _object(f"{role['kind']}Binding", name, namespace, **content)]
        return manifests

    def exceeds(self, rules: Iterable[Mapping[str, JsonValue]]) -> list[ObservedUse]:
        """Return the requests that these rules do not allow in any namespace; empty if they suffice."""
        owned = [PolicyRule.of(rule) for rule in rules]
        asker = User(name=self.user)
        return sorted(u for u in self.allowed if not any(r.allows(_attributes(u, asker)) for r in owned))


def _attributes(use: ObservedUse, user: User) -> AuthorizerAttributes:
    resource, _, subresource = use.resource.partition("/")
    return AuthorizerAttributes(
        user=user,
        verb=use.verb,
        resource_request=not use.path,
        group=use.group,
        resource=resource,
        subresource=subresource,
        path=use.path,
    )


def _object(kind: str, name: str, namespace: str = "", **content: Any) -> JsonObject:
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": meta, **content}


class ObservingAuthorizer:
    """Records the distinct checks of another authorizer, at most `_LIMIT` of them.

    Requests that `FOR_EVERYBODY` allows are not recorded.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._seen: dict[ObservedUse, bool] = {}
        self._recorded: set[tuple[object, ...]] = set()
        """Keys of recorded uses with their outcomes, to skip repeated requests cheaply."""

    def __repr__(self) -> str:
        return f"<ObservingAuthorizer of {len(self._seen)} uses before {self._authorizer!r}>"

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        decision = await self._authorizer.authorize(attributes)
        key = (
            *(attributes.user.name, attributes.verb, attributes.namespace, attributes.group, attributes.resource),
            attributes.subresource,
            "" if attributes.resource_request else attributes.path,
            decision.allowed,
        )
        if key not in self._recorded:
            if len(self._recorded) >= _LIMIT:
                self._recorded.clear()
            self._recorded.add(key)
            self._record(attributes, decision)
        return decision

    def _record(self, attributes: AuthorizerAttributes, decision: Decision) -> None:
        use = ObservedUse.of(attributes)
        if attributes.verb in ("get", "create") and any(rule.allows(attributes) for rule in FOR_EVERYBODY):
            return
        if len(self._seen) < _LIMIT or use in self._seen:
            self._seen[use] = decision.allowed or self._seen.get(use, False)

    async def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        if isinstance(self._authorizer, RuleResolver):
            return await self._authorizer.rules_for(user, namespace)
        return ResolvedRules(incomplete=True)

    def clear(self) -> None:
        """Delete all records."""
        self._seen.clear()
        self._recorded.clear()

    def users(self) -> Sequence[str]:
        """Return the users of all requests."""
        return sorted({use.user for use in self._seen})

    def of(self, user: str) -> UserRules:
        """Return one user's requests."""
        user_rules = {use: allowed for use, allowed in self._seen.items() if use.user == user}
        return UserRules(
            user=user,
            allowed=frozenset(use for use, allowed in user_rules.items() if allowed),
            denied=frozenset(use for use, allowed in user_rules.items() if not allowed),
        )
