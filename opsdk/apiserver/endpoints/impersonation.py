"""Acting as somebody else: who is meant, and whether one may.

Several ways are tried in order. The constrained ones ask twice: may the user do this very request on behalf of
somebody of this sort (``impersonate-on:user-info:list``), and may the user be this one (``impersonate:user-info``)?
The old way asks for ``impersonate`` only. The way that worked last for somebody is tried first, and is the one whose
refusal is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from cachetools import LRUCache

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


def wanted_user(request: HttpRequest) -> User | None:
    """Whom the headers name; None where there are no such headers, `BadRequestError` without a user name."""
    if not any(name.startswith(_HEADER) for name in request.headers):
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
    raise api_errors.bad_request(f"requested {_shown(user)} without impersonating a user name")


def _shown(user: User) -> str:
    """As the real server prints a user."""
    extra = "(nil)"
    if user.extra:
        extra = "{" + ", ".join(f"{_word(k)}:{_words(v)}" for k, v in sorted(user.extra.items())) + "}"
    groups = _words(user.groups) if user.groups else "[]string(nil)"
    text = f"Name:{_word(user.name)}, UID:{_word(user.uid)}, Groups:{groups}, Extra:map[string][]string{extra}"
    return f"&user.DefaultInfo{{{text}}}"


def _word(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _words(texts: Sequence[str]) -> str:
    return f"[]string{{{', '.join(map(_word, texts))}}}"


def impersonated(wanted: User, groups: Sequence[str] = ()) -> User:
    """The user that requests are then made as; `groups` count where none are given, others come by themselves."""
    member_groups = wanted.groups or tuple(groups)
    if wanted.name == ANONYMOUS.name:
        member_groups = member_groups if UNAUTHENTICATED in member_groups else (*member_groups, UNAUTHENTICATED)
    elif AUTHENTICATED not in member_groups and UNAUTHENTICATED not in member_groups:
        member_groups = (*member_groups, AUTHENTICATED)
    return replace(wanted, groups=member_groups)


# ------------------------------------------------------------------ the ways
Questions = Callable[[User, User], Sequence[AuthorizerAttributes]]
"""What must be allowed so that the first user may be the second."""


@dataclass(frozen=True, slots=True)
class ImpersonationMode:
    """One way: for whom it is, what it asks, which groups come with it. `on` is the sort that requests are made on."""

    fits: Callable[[User, User], bool]
    questions: Questions
    groups: Callable[[User], Sequence[str]] = lambda _: ()
    on: str = ""


def _only_name(user: User) -> bool:
    return not (user.uid or user.groups or user.extra)


def _node_of(user: User) -> str:
    return user.name.removeprefix(_NODE) if user.name.startswith(_NODE) else ""


def _ask(
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


def _parts(user: User, wanted: User, verb: str) -> Iterator[AuthorizerAttributes]:
    """The uid, the groups and everything else."""
    if wanted.uid:
        yield _ask(verb, user, group=_GROUP, resource="uids", name=wanted.uid)
    for group in wanted.groups:
        yield _ask(verb, user, group="" if verb == "impersonate" else _GROUP, resource="groups", name=group)
    for key, values in wanted.extra.items():
        for value in values:
            yield _ask(verb, user, group=_GROUP, resource="userextras", subresource=key, name=value)


def _info_questions(user: User, wanted: User) -> Sequence[AuthorizerAttributes]:
    verb = "impersonate:user-info"
    return [_ask(verb, user, group=_GROUP, resource="users", name=wanted.name), *_parts(user, wanted, verb)]


def _account_questions(user: User, wanted: User) -> Sequence[AuthorizerAttributes]:
    namespace, name = split_username(wanted.name) or ("", "")
    verb = "impersonate:serviceaccount"
    return [_ask(verb, user, group=_GROUP, resource="serviceaccounts", namespace=namespace, name=name)]


def _old_questions(user: User, wanted: User) -> Sequence[AuthorizerAttributes]:
    account = split_username(wanted.name)
    if account is None:
        first = _ask("impersonate", user, resource="users", name=wanted.name)
    else:
        first = _ask("impersonate", user, resource="serviceaccounts", namespace=account[0], name=account[1])
    return [first, *_parts(user, wanted, "impersonate")]


def _account_groups(wanted: User) -> Sequence[str]:
    account = split_username(wanted.name)
    return account_groups(account[0]) if account is not None else ()


def _is_associated(user: User, wanted: User) -> bool:
    node = _node_of(wanted)
    on = user.extra.get(_NODE_NAME, ())
    return bool(node) and _only_name(wanted) and split_username(user.name) is not None and on == (node,)


MODES = (
    ImpersonationMode(
        _is_associated,
        lambda user, _: [_ask("impersonate:associated-node", user, group=_GROUP, resource="nodes", name="*")],
        lambda _: (_NODES,),
        "associated-node",
    ),
    ImpersonationMode(
        lambda _, w: bool(_node_of(w)) and _only_name(w),
        lambda user, w: [_ask("impersonate:arbitrary-node", user, group=_GROUP, resource="nodes", name=_node_of(w))],
        lambda _: (_NODES,),
        "arbitrary-node",
    ),
    ImpersonationMode(
        lambda _, w: split_username(w.name) is not None and _only_name(w),
        _account_questions,
        _account_groups,
        "serviceaccount",
    ),
    ImpersonationMode(
        lambda _, w: not _node_of(w) and not w.name.startswith(SERVICE_ACCOUNT),
        _info_questions,
        on="user-info",
    ),
    ImpersonationMode(lambda _u, _w: True, _old_questions, _account_groups),
)
"""In the order in which they are tried."""


class Impersonation:
    """The impersonation filter."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._worked: LRUCache[tuple[str, tuple[str, ...]], int] = LRUCache(_REMEMBERED)

    async def __call__(self, call: Call, handler: Handler) -> HttpResponse:
        """See `Filter`."""
        target = wanted_user(call.http)
        if target is None:
            return await handler(call)
        attributes = attributes_of(call)
        refused: tuple[AuthorizerAttributes, str] | None = None
        key = (call.user.name, call.user.groups)
        worked = self._worked.get(key)
        for number in sorted(range(len(MODES)), key=lambda number: number != worked):
            mode = MODES[number]
            if not mode.fits(call.user, target):
                continue
            no = await self._refused(mode, attributes, target)
            if no is None:
                self._worked[key] = number
                call.impersonator, call.user = call.user, impersonated(target, mode.groups(target))
                return await handler(call)
            refused = refused or no
        assert refused is not None, "the last way fits everybody"
        return denied(call, *refused)

    async def _refused(
        self, mode: ImpersonationMode, asked: AuthorizerAttributes, wanted: User
    ) -> tuple[AuthorizerAttributes, str] | None:
        """The first question that is answered with no, and why; None where all are allowed."""
        questions = list(mode.questions(asked.user, wanted))
        if mode.on:
            questions.insert(0, replace(asked, verb=f"impersonate-on:{mode.on}:{asked.verb}"))
        for question in questions:
            decision = await self._authorizer.authorize(question)
            if not decision.allowed:
                return question, decision.reason
        return None
