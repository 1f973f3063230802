"""Compression of large responses."""

from __future__ import annotations

import gzip

import pytest
from server_caller import Caller

from envtest.environment import Environment

CM = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("asked", "packed"),
    [
        ("gzip", True),
        ("deflate , gzip", True),
        ("gzip;q=0.5", False),
        ("GZIP", False),
        ("*", False),
        ("identity", False),
        ("", False),
    ],
)
async def test_large_responses_are_compressed_for_gzip_clients(asked: str, packed: bool) -> None:
    """Responses over 128 KiB are compressed for any verb; smaller and conditional ones are not."""
    async with Environment() as env:
        call = Caller(env)
        response = await call(
            "POST", CM, {"metadata": {"name": "a"}, "data": {"x": "y" * 140_000}}, accept_encoding=asked
        )
        result = [response, await call("GET", CM, accept_encoding=asked)]
        await call("POST", CM, {"metadata": {"name": "b"}})
        small = await call("GET", f"{CM}/b", accept_encoding=asked)
        for answer in result:
            assert (answer.headers.get("content-encoding") == "gzip") is packed
            assert (answer.headers.get("vary") == "Accept-Encoding") is packed
            body = gzip.decompress(answer.raw) if packed else answer.raw
            assert b"y" * 140_000 in body
        assert "content-encoding" not in small.headers
