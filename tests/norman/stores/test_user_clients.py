"""Connections of users."""

from __future__ import annotations

import asyncio

import pytest

from opsdk.apiserver.auth.user import User
from opsdk.cluster.cluster import Cluster
from opsdk.errors import UnauthorizedError
from opsdk.norman.stores.user_clients import ImpersonatingClients
from opsdk.rest.config import RestConfig
from opsdk.rest.transport import Transport


async def test_a_user_has_one_transport_and_idle_ones_are_closed_first() -> None:
    """Each user has one transport; only idle transports are closed."""
    transports = ImpersonatingClients(Cluster(RestConfig()), max_users=1)
    ann, bob = User(name="ann", uid="u1", groups=("dev",)), User(name="bob")
    async with transports.transport(ann) as first:
        impersonate = first.config.impersonate
        assert (impersonate.user, impersonate.uid, impersonate.groups) == ("ann", "u1", ("dev",))
        async with transports.transport(ann) as again, transports.transport(bob) as other:
            assert again is first
            assert other is not first
        assert "1 users" in repr(transports)
    async with transports.transport(ann) as once_more:
        assert once_more is first
    async with transports.transport(User(name="ann", uid="u1")) as without_groups:
        assert without_groups is not first
    assert "1 users" in repr(transports)
    await transports.aclose()
    await transports.aclose()


async def test_a_transport_that_a_request_takes_while_another_closes_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closing waits; a request that begins meanwhile gets an open transport."""
    closed: list[Transport] = []
    closing, going_on = asyncio.Event(), asyncio.Event()

    async def close(transport: Transport) -> None:
        closed.append(transport)
        closing.set()
        await going_on.wait()

    monkeypatch.setattr(Transport, "aclose", close)
    transports = ImpersonatingClients(Cluster(RestConfig()), max_users=3)
    users = [User(name=name) for name in ("ann", "bob", "cid")]

    async def use(user: User) -> None:
        async with transports.transport(user):
            pass

    for user in users:
        await use(user)
    transports._max_users = 1
    surplus = asyncio.create_task(use(users[2]))
    await closing.wait()
    async with transports.transport(users[1]) as taken:
        going_on.set()
        await surplus
        assert len(closed) == 2
        assert taken not in closed


async def test_a_user_without_name_gets_no_connection() -> None:
    """Without the header of a user, requests would have the permissions of the program."""
    async with ImpersonatingClients(Cluster(RestConfig())) as transports:
        with pytest.raises(UnauthorizedError, match="without name"):
            await transports.transport(User(name="", groups=())).__aenter__()
