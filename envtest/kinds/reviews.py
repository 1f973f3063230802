"""Reviews: questions that are posted and answered at once."""

from __future__ import annotations

from opsdk.apiserver import problems
from opsdk.apiserver.auth.authentication import BearerAuthenticator
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.ports import Listed, ListQuery, Validate, accept
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Details, NotFoundError, UnauthorizedError


def user_info(user: User) -> Tree:
    """A user as reviews show it."""
    extra = {k: list(v) for k, v in user.extra.items()}
    found = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {k: v for k, v in found.items() if v}


class ComponentStatuses:
    """The parts of an old control plane; this one has none to tell of."""

    def __init__(self) -> None:
        self.strategy = Strategy()

    async def get(self, context: Context, name: str) -> Tree:  # noqa: ARG002
        """See `Getter`."""
        # Named by its kind, unlike everything else.
        text = f'componentstatus "{name}" not found'
        raise NotFoundError(text, details=Details(name=name, kind="componentstatus"))

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


class TokenReviews:
    """Whose token is this?"""

    def __init__(self, bearer: BearerAuthenticator) -> None:
        self.strategy = Strategy()
        self._bearer = bearer

    async def create(self, context: Context, name: str, obj: Tree, validate: Validate = accept) -> Tree:  # noqa: ARG002
        """See `Creater`."""
        spec = obj.get("spec") or {}
        token = spec.get("token", "")
        if not token:
            raise problems.bad_request("token is required for TokenReview in authentication")
        await validate(obj, None)
        audiences = tuple(spec.get("audiences") or self._bearer.audiences)
        try:
            found = await self._bearer.check(token, audiences)
        except UnauthorizedError as error:
            return {**obj, "status": {"user": {}, "error": error.message}}
        status: Tree = {"authenticated": True, "user": user_info(found.user)}
        if found.audiences:
            status["audiences"] = list(found.audiences)
        return {**obj, "status": status}
