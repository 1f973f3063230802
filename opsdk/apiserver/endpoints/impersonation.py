"""User impersonation: parse the ``Impersonate-*`` headers and authorize the request, mode by mode.

A constrained mode needs two permissions: for this request while impersonating (``impersonate-on:user-info:list``),
and to impersonate this user (``impersonate:user-info``). The legacy mode needs the verb ``impersonate`` only. For each
user the mode that was allowed last is tried first, and its denial is the one that the response reports.

Upstream: k8s.io/apiserver/pkg/endpoints/filters/impersonation/constrained_impersonation.go, mode.go (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote

import msgspec
from cachetools import LRUCache
from msgspec.structs import replace

from opsdk.apiserver import api_errors
from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes
from opsdk.apiserver.auth.rbac import SERVICE_ACCOUNT
from opsdk.apiserver.auth.service_accounts import account_groups, split_username
from opsdk.apiserver.auth.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User
from opsdk.apiserver.endpoints.authorization import attributes_of, denied
from opsdk.apiserver.endpoints.call import Call, Handler
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse

_HEADER = "impersonate-"
_EXTRA = "impersonate-extra-"
_NODE = "system:node:"
_NODES = "system:nodes"
_GROUP = "authentication.k8s.io"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_REMEMBERED = 1024


def requested_user(request: HttpRequest) -> User | None:
    """Return the user of the headers; None without headers. Raises `BadRequestError` without a user name."""
    if _HEADER not in "\n".join(request.headers):
        return None
    extra: dict[str, tuple[str, ...]] = {}
    for name in request.headers:
        if name.startswith(_EXTRA):
            key = unquote(name.removeprefix(_EXTRA)).lower()
            extra[key] = (*extra.get(key, ()), *request.texts(name))
    user = User(
        name="".join(request.texts("impersonate-user")[:1]),
        uid="".join(request.texts("impersonate-uid")[:1]),
        groups=tuple(request.texts("impersonate-group")),
        extra=extra,
    )
    if user.name:
        return user
    if user == User(name=""):
        return None
    raise api_errors.bad_request(f"requested {_go_user(user)} without impersonating a user name")


def _go_user(user: User) -> str:
    """Format a user as Go's %#v does."""
    extra = "(nil)"
    if user.extra:
        extra = "{" + ", ".join(f"{_go_string(k)}:{_go_strings(v)}" for k, v in sorted(user.extra.items())) + "}"
    groups = _go_strings(user.groups) if user.groups else "[]string(nil)"
    text = (
        f"Name:{_go_string(user.name)}, UID:{_go_string(user.uid)}, Groups:{groups}, Extra:map[string][]string{extra}"
    )
    return f"&user.DefaultInfo{{{text}}}"


def _go_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _go_strings(texts: Sequence[str]) -> str:
    return f"[]string{{{', '.join(map(_go_string, texts))}}}"


def impersonated(target: User, groups: Sequence[str] = ()) -> User:
    """Return the user that the request acts as; `groups` apply if the headers name none."""
    member_groups = target.groups or tuple(groups)
    if target.name == ANONYMOUS.name:
        member_groups = member_groups if UNAUTHENTICATED in member_groups else (*member_groups, UNAUTHENTICATED)
    elif AUTHENTICATED not in member_groups and UNAUTHENTICATED not in member_groups:
        member_groups = (*member_groups, AUTHENTICATED)
    return replace(target, groups=member_groups)


# ------------------------------------------------------------------ modes
AttributesOf = Callable[[User, User], Sequence[AuthorizerAttributes]]
"""Returns the checks that allow the first user to impersonate the second."""


class ImpersonationMode(msgspec.Struct, frozen=True):
    """One mode: the users it applies to, its checks and its groups. `on` ends ``impersonate-on:<on>:<verb>``."""

    applies: Callable[[User, User], bool]
    attributes: AttributesOf
    groups: Callable[[User], Sequence[str]] = lambda _: ()
    on: str = ""


def _has_only_name(user: User) -> bool:
    return not (user.uid or user.groups or user.extra)


def _node_name(user: User) -> str:
    return user.name.removeprefix(_NODE) if user.name.startswith(_NODE) else ""


def _attributes(
    verb: str, user: User, *, resource: str, name: str, group: str = "", namespace: str = "", subresource: str = ""
) -> AuthorizerAttributes:
    return AuthorizerAttributes(
        user=user,
        verb=verb,
        group=group,
        version="v1",
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def _other_attributes(user: User, target: User, verb: str) -> Iterator[AuthorizerAttributes]:
    """Yield the checks of UID, groups and extra values."""
    if target.uid:
        yield _attributes(verb, user, group=_GROUP, resource="uids", name=target.uid)
    for group in target.groups:
        yield _attributes(verb, user, group="" if verb == "impersonate" else _GROUP, resource="groups", name=group)
    for key, values in target.extra.items():
        for value in values:
            yield _attributes(verb, user, group=_GROUP, resource="userextras", subresource=key, name=value)


def _user_info_attributes(user: User, target: User) -> Sequence[AuthorizerAttributes]:
    verb = "impersonate:user-info"
    return [
        _attributes(verb, user, group=_GROUP, resource="users", name=target.name),
        *_other_attributes(user, target, verb),
    ]


def _service_account_attributes(user: User, target: User) -> Sequence[AuthorizerAttributes]:
    namespace, name = split_username(target.name) or ("", "")
    verb = "impersonate:serviceaccount"
    return [_attributes(verb, user, group=_GROUP, resource="serviceaccounts", namespace=namespace, name=name)]


def _legacy_attributes(user: User, target: User) -> Sequence[AuthorizerAttributes]:
    account = split_username(target.name)
    if account is None:
        first = _attributes("impersonate", user, resource="users", name=target.name)
    else:
        first = _attributes("impersonate", user, resource="serviceaccounts", namespace=account[0], name=account[1])
    return [first, *_other_attributes(user, target, "impersonate")]


def _account_groups(target: User) -> Sequence[str]:
    account = split_username(target.name)
    return account_groups(account[0]) if account is not None else ()


def _is_associated_node(user: User, target: User) -> bool:
    node = _node_name(target)
    on = user.extra.get(_NODE_NAME, ())
    return bool(node) and _has_only_name(target) and split_username(user.name) is not None and on == (node,)


MODES = (
    ImpersonationMode(
        _is_associated_node,
        lambda user, _: [_attributes("impersonate:associated-node", user, group=_GROUP, resource="nodes", name="*")],
        lambda _: (_NODES,),
        "associated-node",
    ),
    ImpersonationMode(
        lambda _, w: bool(_node_name(w)) and _has_only_name(w),
        lambda user, w: [
            _attributes("impersonate:arbitrary-node", user, group=_GROUP, resource="nodes", name=_node_name(w))
        ],
        lambda _: (_NODES,),
        "arbitrary-node",
    ),
    ImpersonationMode(
        lambda _, w: split_username(w.name) is not None and _has_only_name(w),
        _service_account_attributes,
        _account_groups,
        "serviceaccount",
    ),
    ImpersonationMode(
        lambda _, w: not _node_name(w) and not w.name.startswith(SERVICE_ACCOUNT),
        _user_info_attributes,
        on="user-info",
    ),
    ImpersonationMode(lambda _u, _w: True, _legacy_attributes, _account_groups),
)
"""In the order of attempts."""


class Impersonation:
    """The impersonation filter."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._last_modes: LRUCache[tuple[str, tuple[str, ...]], int] = LRUCache(_REMEMBERED)

    async def __call__(self, call: Call, handler: Handler) -> HttpResponse:
        target = requested_user(call.http)
        if target is None:
            return await handler(call)
        attributes = attributes_of(call)
        refused: tuple[AuthorizerAttributes, str] | None = None
        key = (call.user.name, call.user.groups)
        worked = self._last_modes.get(key)
        for number in sorted(range(len(MODES)), key=lambda number: number != worked):
            mode = MODES[number]
            if not mode.applies(call.user, target):
                continue
            no = await self._first_refusal(mode, attributes, target)
            if no is None:
                self._last_modes[key] = number
                call.impersonator, call.user = call.user, impersonated(target, mode.groups(target))
                return await handler(call)
            refused = refused or no
        assert refused is not None, "the last way fits everybody"
        return denied(call, *refused)

    async def _first_refusal(
        self, mode: ImpersonationMode, attributes: AuthorizerAttributes, target: User
    ) -> tuple[AuthorizerAttributes, str] | None:
        """Return the first denied check with its reason; None if all are allowed."""
        questions = list(mode.attributes(attributes.user, target))
        if mode.on:
            questions.insert(0, msgspec.structs.replace(attributes, verb=f"impersonate-on:{mode.on}:{attributes.verb}"))
        for question in questions:
            decision = await self._authorizer.authorize(question)
            if not decision.allowed:
                return question, decision.reason
        return None
