"""Watches: content and order of a stream."""

from __future__ import annotations

import asyncio
import json

import pytest
from server_caller import Caller

from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

CM = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("early", [True, False])
async def test_no_bookmark_overtakes_an_event(early: bool) -> None:
    """A change at the time of a bookmark is sent before it: a watch that resumes from the bookmark misses nothing."""
    async with Environment() as env:
        stored = (await Caller(env)("POST", CM, {"metadata": {"name": "a"}})).json
        copy: JsonObject = {**stored, "metadata": {**stored["metadata"], "name": "b"}}
        loop, storage = asyncio.get_running_loop(), env.plane.storage
        moment = loop.time() + 60
        write = storage.create_now, "core/configmaps/default/b", copy
        if early:
            loop.call_at(moment, *write)
        version = copy["metadata"]["resourceVersion"]
        url = f"{CM}?watch=1&allowWatchBookmarks=1&timeoutSeconds=200&resourceVersion={version}"
        asking = asyncio.ensure_future(Caller(env)("GET", url))
        await asyncio.sleep(0)
        if not early:
            await asyncio.sleep(1)
            loop.call_at(moment, *write)
        events = [json.loads(line) for line in (await asking).raw.splitlines()]
        assert [event["type"] for event in events[:2]] == ["ADDED", "BOOKMARK"]
        revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
        assert revisions == sorted(revisions)
