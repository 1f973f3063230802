"""Delegated authentication and authorization with TokenReview and SubjectAccessReview.

Upstream: k8s.io/apiserver/plugin/pkg/authenticator/token/webhook, plugin/pkg/authorizer/webhook (v1.36).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from opsdk.aio.clock import LOOP_CLOCK, Clock
from opsdk.apiserver.auth.authentication import Authenticated
from opsdk.apiserver.auth.authorization import AuthorizerAttributes, Decision, is_public
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.errors import OpsdkError, UnauthorizedError
from opsdk.structured_merge.value import JsonObject, JsonValue

Ask = Callable[[JsonObject], Awaitable[JsonObject]]
"""Creates a review and returns the created object. Raises `OpsdkError`."""

REMEMBERED: Final = 10.0
"""Seconds that a response is cached, as in k8s.io/apiserver."""
_MOST: Final = 4096
T = TypeVar("T")


class _Memory(Generic[T]):
    """An LRU cache whose entries expire after `REMEMBERED` seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        entry = self._kept.get(key)
        return entry[1] if entry is not None and self._clock.now() < entry[0] else None

    def put(self, key: Hashable, value: T) -> None:
        self._kept[key] = (self._clock.now() + REMEMBERED, value)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)


class DelegatedTokens:
    """Bearer tokens, checked by a ``TokenReview``; see `TokenChecker`."""

    def __init__(self, ask: Ask, *, clock: Clock = LOOP_CLOCK) -> None:
        self._ask = ask
        self._memory = _Memory[JsonObject](clock)

    async def check(self, token: str, audiences: Sequence[str]) -> Authenticated | None:
        """See `TokenChecker`."""
        key = (hashlib.sha256(token.encode()).digest(), tuple(audiences))
        status = self._memory.get(key)
        if status is None:
            spec: JsonObject = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
            try:
                answer = await self._ask(review)
            except OpsdkError as error:
                raise UnauthorizedError(f"the token cannot be checked: {error}") from error
            status = dict(answer.get("status") or {})
            self._memory.put(key, status)
        if not status.get("authenticated"):
            if status.get("error"):
                raise UnauthorizedError(str(status["error"]))
            return None
        return Authenticated(user_of(status.get("user") or {}), tuple(status.get("audiences") or ()))


def user_of(user_info: JsonObject) -> User:
    """Return the user of a review's ``userInfo``."""
    extra = {key: tuple(values) for key, values in (user_info.get("extra") or {}).items()}
    return User(
        name=user_info.get("username") or "",
        uid=user_info.get("uid") or "",
        groups=tuple(user_info.get("groups") or ()),
        extra=extra,
    )


class DelegatedAuthorizer:
    """Authorizes by ``SubjectAccessReview``. Public paths and ``system:masters`` are always allowed."""

    def __init__(self, ask: Ask, *, clock: Clock = LOOP_CLOCK) -> None:
        self._ask = ask
        self._memory = _Memory[Decision](clock)

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        """See `Authorizer`."""
        if MASTERS in attributes.user.groups or (not attributes.resource_request and is_public(attributes.path)):
            return Decision(allowed=True)
        spec = access_of(attributes)
        key = _frozen(spec)
        cached = self._memory.get(key)
        if cached is not None:
            return cached
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        try:
            status: JsonObject = (await self._ask(review)).get("status") or {}
        except OpsdkError as error:
            return Decision(allowed=False, error=str(error))
        decision = Decision(
            allowed=bool(status.get("allowed")),
            reason=status.get("reason") or "",
            denied=bool(status.get("denied")),
            error=status.get("evaluationError") or "",
        )
        self._memory.put(key, decision)
        return decision


def access_of(attributes: AuthorizerAttributes) -> JsonObject:
    """Return the ``spec`` of a SubjectAccessReview."""
    user = attributes.user
    who: JsonObject = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    if attributes.resource_request:
        what = {
            "namespace": attributes.namespace,
            "verb": attributes.verb,
            "group": attributes.group,
            "version": attributes.version,
            "resource": attributes.resource,
            "subresource": attributes.subresource,
            "name": attributes.name,
        }
        return {**_without_empty(who), "resourceAttributes": _without_empty(what)}
    return {**_without_empty(who), "nonResourceAttributes": {"path": attributes.path, "verb": attributes.verb}}


def _without_empty(tree: JsonObject) -> JsonObject:
    return {key: value for key, value in tree.items() if value}


def _frozen(value: JsonValue) -> Hashable:
    if isinstance(value, dict):
        return tuple((key, _frozen(part)) for key, part in sorted(value.items()))
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value
