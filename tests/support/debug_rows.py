"""Reads debug pages without a server."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from opsdk.http.server.request import HttpRequest, Query
from opsdk.manager.debug import DebugPages


async def debug_rows(pages: DebugPages, page: str) -> Any:
    """Return what a page shows."""
    headers = {"host": "127.0.0.1"}
    request = HttpRequest("GET", f"/debug/{page}", Query(), headers, lambda: asyncio.sleep(0, {}))
    response = await pages.handle(request)
    assert response is not None
    assert response.status == 200
    return msgspec.json.decode(response.body)
