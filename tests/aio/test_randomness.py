"""Identifiers."""

from __future__ import annotations

import asyncio
import uuid

from opsdk.aio.randomness import UuidSequence
from opsdk.testing.loop import VirtualLoop


def test_a_sequence_makes_different_uuids() -> None:
    """Each is a UUID of version 4 in its usual text, and two sequences share none."""
    one, other = UuidSequence(), UuidSequence()
    ids = [sequence.next() for sequence in (one, other) for _ in range(1000)]
    assert len(set(ids)) == 2000
    for text in ids:
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert (parsed.version, parsed.variant) == (4, uuid.RFC_4122)


def test_a_seeded_loop_repeats_its_ids() -> None:
    """The random bits come from the loop."""

    async def main() -> list[str]:
        ids = UuidSequence()
        return [ids.next() for _ in range(3)]

    def run(seed: int) -> list[str]:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
            return runner.run(main())

    assert run(7) == run(7) != run(8)
