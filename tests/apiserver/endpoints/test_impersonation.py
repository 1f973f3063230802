"""Parsing of impersonation headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.auth.user import User
from opsdk.apiserver.endpoints.impersonation import impersonated, requested_user
from opsdk.errors import BadRequestError
from opsdk.http.asgi_types import Message
from opsdk.http.server.request import HttpRequest
from opsdk.rest.config import Impersonate

words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)


async def nothing() -> Message:
    """No body."""
    return {"type": "http.disconnect"}


def request(*headers: tuple[str, str]) -> HttpRequest:
    """A request with these headers, which may be repeated."""
    raw = [(k.lower().encode(), v.encode("latin-1")) for k, v in headers]
    return HttpRequest.from_scope({"type": "http", "method": "GET", "path": "/", "headers": raw}, nothing)


@given(
    words,
    st.lists(words, max_size=3),
    st.dictionaries(words.map(str.lower), st.lists(words, min_size=1, max_size=2), max_size=2),
)
def test_what_clients_write_servers_read(name: str, groups: list[str], extra: dict[str, list[str]]) -> None:
    """User, groups and escaped keys arrive as the client's configuration has them."""
    sent = Impersonate(user=name, uid="u", groups=groups, extra=extra)
    result = requested_user(request(*sent.headers()))
    expected = {key: tuple(values) for key, values in extra.items()}
    assert result == User(name=name, uid="u", groups=tuple(groups), extra=expected)


def test_requests_without_headers_impersonate_no_user() -> None:
    """Requests without impersonation headers, or with empty ones, impersonate no user."""
    assert requested_user(request(("accept", "*/*"))) is None
    assert requested_user(request(("Impersonate-User", ""))) is None


def test_names_are_utf_8_and_the_first_counts() -> None:
    """Impersonation headers are UTF-8, and the first user header wins."""
    name = "zoë".encode().decode("latin-1")
    result = requested_user(
        request(("Impersonate-User", name), ("Impersonate-User", "other"), ("Impersonate-Group", "a, b"))
    )
    assert result == User(name="zoë", groups=("a, b",))


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        (("Impersonate-Group", "g"), 'UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)'),
        (("Impersonate-Uid", "x"), 'UID:"x", Groups:[]string(nil), Extra:map[string][]string(nil)'),
        (
            ("Impersonate-Extra-A%2Fb", "c"),
            'UID:"", Groups:[]string(nil), Extra:map[string][]string{"a/b":[]string{"c"}}',
        ),
    ],
)
def test_a_name_is_needed(header: tuple[str, str], shown: str) -> None:
    """Impersonation headers without a user are a 400 that shows them."""
    with pytest.raises(BadRequestError) as caught:
        requested_user(request(header))
    text = f'requested &user.DefaultInfo{{Name:"", {shown}}} without impersonating a user name'
    assert caught.value.message == text


@pytest.mark.parametrize(
    ("name", "groups", "wanted"),
    [
        ("bob", (), ("system:authenticated",)),
        ("bob", ("a",), ("a", "system:authenticated")),
        ("bob", ("system:authenticated",), ("system:authenticated",)),
        ("bob", ("system:unauthenticated",), ("system:unauthenticated",)),
        ("system:anonymous", (), ("system:unauthenticated",)),
        ("system:anonymous", ("a",), ("a", "system:unauthenticated")),
    ],
)
def test_groups_that_come_by_themselves(name: str, groups: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """An impersonated user gets system:authenticated, or system:unauthenticated for system:anonymous, once."""
    assert impersonated(User(name=name, groups=groups)).groups == wanted
