"""Connections of users."""

from __future__ import annotations

import pytest

from opsdk.apiserver.auth.user import User
from opsdk.errors import UnauthorizedError
from opsdk.norman.steve.user_transports import UserTransports
from opsdk.rest.config import Config


async def test_a_user_has_one_transport_and_idle_ones_are_closed_first() -> None:
    """A transport that is in use is never closed, so that its watches go on."""
    transports = UserTransports(Config(), max_users=1)
    ann, bob = User(name="ann", groups=("dev",)), User(name="bob")
    async with transports.transport(ann) as first:
        assert first.config.impersonate.user == "ann"
        assert first.config.impersonate.groups == ("dev",)
        async with transports.transport(ann) as again, transports.transport(bob) as other:
            assert again is first
            assert other is not first
        assert [used.transport for used in transports._transports.values()] == [first]
    async with transports.transport(User(name="ann")) as without_groups:
        assert without_groups is not first
    assert "1 users" in repr(transports)
    await transports.aclose()
    await transports.aclose()


async def test_a_user_without_name_gets_no_connection() -> None:
    """Without the header of a user, requests would have the rights of the program."""
    async with UserTransports(Config()) as transports:
        with pytest.raises(UnauthorizedError, match="without name"):
            await transports.transport(User(name="", groups=())).__aenter__()
