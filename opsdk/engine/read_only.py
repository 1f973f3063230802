"""A transport that cannot write."""

from __future__ import annotations

from collections.abc import Mapping

from opsdk.http.client.request import ResponseStream
from opsdk.rest.request import RestRequest
from opsdk.rest.response import raise_for_status
from opsdk.rest.transport import Transport

__all__ = ["ReadOnlyTransport"]


class ReadOnlyTransport(Transport):
    """Sends GET requests only: get, list and watch."""

    async def exchange(
        self, request: RestRequest, headers: Mapping[str, str] | None = None, used: list[int] | None = None
    ) -> ResponseStream:
        """Send a GET request. Any other method is an error of this program."""
        assert request.method == "GET", f"a plan must not send {request.method}"
        return await super().exchange(request, headers, used)

    async def get(self, path: str, *query: tuple[str, str]) -> bytes:
        """Return the body of a response. Raises `ApiError` for another status than 2xx, or `TransportError`."""
        request = RestRequest("GET", path, query=query)
        response = await self.send(request)
        raise_for_status(response, request)
        return response.body
