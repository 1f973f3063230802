"""The same seed repeats the same run."""

from __future__ import annotations

import asyncio

from server_caller import Caller

from envtest.environment import Environment
from envtest.testing.effects import Delay
from opsdk.testing.loop import VirtualLoop

CM = "/api/v1/namespaces/default/configmaps"


async def _run() -> list[tuple[str, str, float]]:
    """Names, UIDs and times of a few creations under random delays."""
    events = []
    async with Environment() as env:
        env.faults.seed(7)
        env.faults.add(Delay(1, jitter=5), probability=0.5)
        for _ in range(10):
            meta = (await Caller(env)("POST", CM, {"metadata": {"generateName": "a-"}})).json["metadata"]
            events.append((meta["name"], meta["uid"], asyncio.get_running_loop().time()))
    return events


def test_a_seed_repeats_names_uids_and_times() -> None:
    """Generated names, UIDs and delays follow the loop's seed and that of the faults."""
    runs = []
    for seed in (1, 1, 2):
        with asyncio.Runner(loop_factory=lambda seed=seed: VirtualLoop(seed)) as runner:
            runs.append(runner.run(_run()))
    assert runs[0] == runs[1]
    assert [name for name, _, _ in runs[0]] != [name for name, _, _ in runs[2]]
    assert [time for _, _, time in runs[0]] == [time for _, _, time in runs[2]]
