"""Failover with real processes. ``python -m benchmarks.runtime failover`` plays many more rounds."""

from __future__ import annotations

import pytest

from benchmarks.runtime.failover import Journal, run

pytestmark = [pytest.mark.slow, pytest.mark.realtime]


async def test_never_do_two_replicas_write() -> None:
    """Kill -9 and SIGSTOP of the leader: the other one takes over, and every write is the lease holder's."""
    killed, frozen = await run(1)
    # Not before the lease could have run out; then the next try of the standby.
    assert all(2 < seconds < 20 for seconds in (*killed, *frozen))


async def test_the_proof_finds_a_write_without_the_lease() -> None:
    """The holder at the revision of the write counts, not the one before or after."""
    journal = Journal(holders=[(10, "a"), (12, "a"), (20, "b")])
    journal.writes = [(9, "a"), (11, "a"), (19, "a"), (21, "a"), (21, "b"), (15, "b")]
    assert [text.split(":")[0] for text in journal.violations()] == ["revision 9", "revision 21", "revision 15"]
