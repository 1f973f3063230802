"""An operator under hours of churn: ``python -m tests.bench churn [SECONDS]``.

A server in a process of its own changes 200 objects a second, fails 5 % of the requests, drops its watches, compacts
and restarts. Each minute the churn pauses for a moment; then the operator's store must equal the server, and each
object's last state must have been reconciled. Prints memory and counts for each check, and fails at a difference.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

from envtest.environment import Environment
from envtest.testing.effects import Fail
from opsdk import Cluster, ObjectMeta, Operator, Request, load_config
from opsdk.api.core.v1 import ConfigMap
from opsdk.errors import OpsdkError

RATE = 200
OBJECTS = 500
PAUSE_EVERY = 60.0
NAMESPACE = "churn"


async def serve(kubeconfig: str, seconds: float) -> None:
    """Serve, churn and break, until `seconds` have passed. The file ``<kubeconfig>.pause`` stops the churn."""
    async with Environment() as env, Cluster(env.config) as cluster:
        client = cluster.uncached
        web = await env.serve()
        user = env.add_user("operator", groups=["system:masters"])
        Path(kubeconfig).write_text(user.kubeconfig(web))
        pause, paused = Path(f"{kubeconfig}.pause"), Path(f"{kubeconfig}.paused")
        env.faults.seed(1)
        # The churn's own requests come from inside; only the operator's fail.
        env.faults.add(Fail(503), user="operator", probability=0.05)
        began = time.monotonic()
        number = 0
        objects: dict[int, ConfigMap] = {}
        async with asyncio.TaskGroup() as group:
            breaking = group.create_task(_break(env))
            while time.monotonic() - began < seconds or pause.exists():
                if pause.exists():
                    paused.touch()
                    await asyncio.sleep(0.1)
                    continue
                paused.unlink(missing_ok=True)
                for _ in range(RATE // 10):
                    number += 1
                    slot = number * 7919 % OBJECTS
                    await _change(client, objects, slot, number)
                due = began + number / RATE
                await asyncio.sleep(max(0.0, min(due - time.monotonic(), 0.1)))
            breaking.cancel()


async def _change(client: object, objects: dict[int, ConfigMap], slot: int, number: int) -> None:
    known = objects.get(slot)
    if known is None:
        meta = ObjectMeta(name=f"o{slot}", namespace="default", labels={"churn": "yes"})
        objects[slot] = await client.create(ConfigMap(metadata=meta, data={"n": str(number)}))  # type: ignore[attr-defined]
    elif number % 13 == 0:
        del objects[slot]
        await client.delete(known)  # type: ignore[attr-defined]
    else:
        known.data["n"] = str(number)
        await client.update(known)  # type: ignore[attr-defined]


async def _break(env: Environment) -> None:
    for turn in range(1, sys.maxsize):
        await asyncio.sleep(15)
        if turn % 8 == 0:
            await env.faults.restart(2.0)
        elif turn % 4 == 0:
            env.faults.compact()
            env.faults.expire_watches()
        else:
            env.faults.drop_watches()


def resident() -> float:
    """Resident memory of this process in MB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1)) / 1024


async def run(seconds: float = 3600.0) -> None:
    """Run the operator against the churning server."""
    kubeconfig = Path("/tmp") / f"churn-{time.time_ns()}"
    server = await asyncio.create_subprocess_exec(sys.executable, "-m", __spec__.name, str(kubeconfig), str(seconds))
    while not kubeconfig.exists() or not kubeconfig.read_text():
        await asyncio.sleep(0.1)
    reconciled: dict[str, str] = {}
    runs = 0
    operator = Operator("churn")

    @operator.reconciler(ConfigMap)
    async def reconcile(request: Request) -> None:
        nonlocal runs
        runs += 1
        found = await operator.client.get_or_none(ConfigMap, request.key)
        if found is None:
            reconciled.pop(str(request), None)
            return
        reconciled[str(request)] = found.metadata.resource_version
        if runs % 100 == 0:
            # A write now and then, so that failing writes are part of it.
            await operator.client.get(ConfigMap, request.key, uncached=True)

    config = load_config(kubeconfig=kubeconfig)
    task = asyncio.create_task(operator.start(config))
    pause, paused = Path(f"{kubeconfig}.pause"), Path(f"{kubeconfig}.paused")
    began = time.monotonic()
    print("  minute   objects  reconciles   lists  watches   RSS MB")
    try:
        while time.monotonic() - began < seconds:
            await asyncio.sleep(PAUSE_EVERY)
            pause.touch()
            while not paused.exists():
                await asyncio.sleep(0.1)
            await _check(operator, reconciled, runs, (time.monotonic() - began) / 60)
            pause.unlink()
    finally:
        pause.unlink(missing_ok=True)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        server.terminate()
        await server.wait()
        for path in (kubeconfig, paused):
            path.unlink(missing_ok=True)


async def _check(operator: Operator, reconciled: dict[str, str], runs: int, minute: float) -> None:
    """Wait until the operator has caught up; fail if it does not within a minute."""
    difference: set[tuple[str, str]] = set()
    for _ in range(60):
        await asyncio.sleep(1)
        try:
            listed = await operator.client.list(ConfigMap, uncached=True)
        except OpsdkError as error:
            print(f"  (the check was refused: {error})")
            continue
        server = {(f"{o.metadata.namespace}/{o.metadata.name}", o.metadata.resource_version) for o in listed}
        cached = await operator.client.list(ConfigMap)
        store = {(f"{o.metadata.namespace}/{o.metadata.name}", o.metadata.resource_version) for o in cached}
        difference = (server ^ store) | (server ^ set(reconciled.items()))
        if not difference:
            break
    else:
        raise AssertionError(f"the operator is behind: {sorted(difference)[:5]}")
    [informer] = [i for kind in operator.cluster.cache.kinds() for i in kind.informers.values()]
    counts = informer.counts
    print(
        f"  {minute:6.1f}  {len(store):8} {runs:11} {counts['list']:7} {counts['watch']:8} {resident():8.1f}",
        flush=True,
    )


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2])))
