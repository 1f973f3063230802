"""Encoded events that watchers share."""

from __future__ import annotations

import asyncio
import gc

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.endpoints.shared_frames import EncodedEvent, SharedFrames

TREES = [{"number": number} for number in range(4)]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("jp"), st.booleans()), max_size=40))
def test_a_held_frame_exists_once(steps: list[tuple[int, str, bool]]) -> None:
    """A frame that any watcher holds is the frame of all, however many others were encoded since."""
    frames = SharedFrames(recent_bytes=20)
    held: dict[tuple[int, str], EncodedEvent] = {}
    for number, form, release in steps:
        tree = TREES[number]
        frame = frames.find(tree, form) or frames.add(tree, form, bytes(10))
        assert frame is held.get((number, form), frame)
        assert frame.tree is tree
        held[number, form] = frame
        if release:
            del held[number, form]


def test_frames_without_a_watcher_have_a_budget() -> None:
    """What no watcher holds is released, except for the last frames up to the budget."""
    frames = SharedFrames(recent_bytes=100)
    trees = [{"number": number} for number in range(50)]
    for tree in trees:
        frames.add(tree, "json", bytes(30))
    gc.collect()
    assert [tree["number"] for tree in trees if frames.find(tree, "json")] == [47, 48, 49]


async def test_concurrent_watchers_encode_once() -> None:
    """Watchers that need a frame at the same time wait for one encoding; a cancelled one passes it on."""
    frames, calls = SharedFrames(), []

    async def encode() -> bytes:
        calls.append(1)
        await asyncio.sleep(1)
        return b"frame"

    tasks = [asyncio.ensure_future(frames.once(TREES[0], "json", encode)) for _ in range(5)]
    await asyncio.sleep(0.5)
    tasks[0].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert len({id(frame) for frame in done[1:]}) == 1
    assert len(calls) == 2
