"""Laws of `opsdk.apiserver.endpoints.filters`, through a whole server."""

from __future__ import annotations

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.filters import Handler, NamedFilter
from opsdk.http.server.response import HttpResponse


async def test_the_response_to_an_unexpected_error_has_none_of_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the exception; the client gets a Status that points there."""

    async def fail(call: Call, handler: Handler) -> HttpResponse:
        raise KeyError("s3cret")

    async with Environment() as env:
        env.server.add_filter(NamedFilter("fail", fail))
        answer = await Caller(env)("GET", "/api/v1/namespaces/default/configmaps")
    assert answer.status == 500
    assert "Look in the logs" in answer.json["message"]
    assert not {"s3cret", "KeyError"} & set(answer.raw.decode().replace('"', " ").replace("'", " ").split())
    assert "s3cret" in caplog.text
