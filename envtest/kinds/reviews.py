"""Reviews: questions that are posted and answered at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opsdk.apiserver import problems
from opsdk.apiserver.auth.authentication import Authenticator
from opsdk.apiserver.auth.authorization import Attributes, Authorizer
from opsdk.apiserver.auth.user import AUTHENTICATED, User
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.ports import Listed, ListQuery, Validate, accept
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.resources import ResourceInfo
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import UnauthorizedError
from opsdk.web.request import Query, Request


def user_info(user: User) -> Tree:
    """A user as reviews show it."""
    extra = {k: list(v) for k, v in user.extra.items()}
    found = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {k: v for k, v in found.items() if v}


class ComponentStatuses:
    """The parts of an old control plane; this one has none to tell of."""

    def __init__(self, info: ResourceInfo) -> None:
        self.strategy = Strategy()
        self._info = info

    async def get(self, context: Context, name: str) -> Tree:  # noqa: ARG002
        """See `Getter`."""
        raise problems.not_found(self._info, name)

    async def list(self, context: Context, query: ListQuery) -> Listed:  # noqa: ARG002
        """See `Lister`."""
        return Listed([], 0)


class SelfSubjectReviews:
    """Who am I?"""

    def __init__(self) -> None:
        self.strategy = Strategy()

    async def create(self, context: Context, name: str, obj: Tree, validate: Validate = accept) -> Tree:  # noqa: ARG002
        """See `Creater`."""
        meta = {**(obj.get("metadata") or {}), "creationTimestamp": context.timestamp()}
        return {**obj, "metadata": meta, "status": {"userInfo": user_info(context.user)}}


Subject = Callable[[Context, Tree], User]


def oneself(context: Context, spec: Tree) -> User:  # noqa: ARG001 - the shape of Subject
    """The one who asks."""
    return context.user


def somebody(context: Context, spec: Tree) -> User:  # noqa: ARG001 - the shape of Subject
    """The one asked about."""
    extra = {k: tuple(v) for k, v in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return User(name=spec.get("user", ""), uid=spec.get("uid", ""), groups=groups, extra=extra)


class AccessReviews:
    """May they? Asked of the authorizer that every request is asked of."""

    def __init__(self, authorizer: Authorizer, kind: str, *, subject: Subject) -> None:
        self.strategy = Strategy()
        self._authorizer = authorizer
        self._kind = kind
        self._subject = subject

    async def create(self, context: Context, name: str, obj: Tree, validate: Validate = accept) -> Tree:  # noqa: ARG002
        """See `Creater`."""
        spec = obj.get("spec") or {}
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (resource is None) == (path is None):
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            cause = problems.invalid_value("spec.resourceAttributes", path, text)
            raise problems.invalid(self._kind, "authorization.k8s.io", "", [cause])
        decision = await self._authorizer.authorize(_attributes(self._subject(context, spec), resource, path))
        status: Tree = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return {**obj, "status": status}


def _attributes(user: User, resource: Tree | None, path: Tree | None) -> Attributes:
    if resource is None:
        asked = path or {}
        return Attributes(user=user, verb=asked.get("verb", ""), resource_request=False, path=asked.get("path", ""))
    return Attributes(
        user=user,
        verb=resource.get("verb", ""),
        group=resource.get("group", ""),
        version=resource.get("version", ""),
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
    )


class TokenReviews:
    """Whose token is this?"""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        self.strategy = Strategy()
        self._authenticators = authenticators

    async def create(self, context: Context, name: str, obj: Tree, validate: Validate = accept) -> Tree:  # noqa: ARG002
        """See `Creater`."""
        token = (obj.get("spec") or {}).get("token", "")
        if not token:
            raise problems.bad_request("token is required for TokenReview in authentication")
        user = await self._user(token)
        if user is None:
            return {**obj, "status": {"user": {}, "error": "invalid bearer token"}}
        groups = user.groups if AUTHENTICATED in user.groups else (*user.groups, AUTHENTICATED)
        info = user_info(User(name=user.name, uid=user.uid, groups=groups, extra=user.extra))
        return {**obj, "status": {"authenticated": True, "user": info}}

    async def _user(self, token: str) -> User | None:
        async def nothing() -> Tree:
            return {"type": "http.disconnect"}

        headers = {"authorization": f"Bearer {token}"}
        request = Request(method="POST", path="/", query=Query(), headers=headers, receive=nothing)
        for authenticator in self._authenticators:
            try:
                user = await authenticator.authenticate(request)
            except UnauthorizedError:
                return None
            if user is not None:
                return user
        return None
