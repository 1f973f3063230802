"""An operator under churn: ``python -m benchmarks.runtime churn [SECONDS]`` or ``churn --names NAMES``.

A server in a process of its own changes 200 objects a second, fails 5 % of the requests, drops its watches, compacts
and restarts. Each minute the churn pauses for a moment; then the operator's store must equal the server, and each
object's last state must have been reconciled. Prints memory and counts for each check, and fails at a difference.

With ``--names``, so many distinct objects are created and deleted under a leader and a standby in one process. The
leader applies a child for each and records Events; a map function raises for each. Prints the resident memory, and its
slope in bytes for each name over the second half; fails above 200.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from envtest.environment import Environment
from envtest.testing.effects import Fail
from opsdk import Client, Cluster, Context, ObjectMeta, Operator, OperatorOptions, Request, load_config
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.kinds import metadata_only
from opsdk.builder.arguments import WatchSpec
from opsdk.errors import OpsdkError

RATE = 200
OBJECTS = 500
PAUSE_EVERY = 60.0
BATCH = 100
STEPS = 20
MAX_SLOPE = 200.0


async def serve(seconds: float) -> None:
    """Serve, churn and break until `seconds` have passed.

    Writes a kubeconfig to stdout as one line of JSON. A line on stdin pauses the churn, the next one resumes it; both
    are answered by a line.
    """
    async with Environment() as env, Cluster(env.config) as cluster:
        web = await env.serve()
        user = env.add_user("operator", groups=["system:masters"])
        print(json.dumps(user.kubeconfig(web)), flush=True)
        env.faults.seed(1)
        # The churn's own requests come from inside; only the operator's fail.
        env.faults.add(Fail(503), user="operator", probability=0.05)
        running = asyncio.Event()
        running.set()
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(_break(env)), group.create_task(_obey(running))]
            await _churn(cluster.uncached, running, seconds)
            for task in helpers:
                task.cancel()


async def _obey(running: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        if running.is_set():
            running.clear()
        else:
            running.set()
        await asyncio.sleep(0.2)  # a change that has begun ends
        print("done", flush=True)


async def _churn(client: Client, running: asyncio.Event, seconds: float) -> None:
    began = time.monotonic()
    objects: dict[int, ConfigMap] = {}
    number = 0
    while time.monotonic() - began < seconds:
        await running.wait()
        tick = time.monotonic()
        for _ in range(RATE // 10):
            number += 1
            slot = number * 7919 % OBJECTS
            try:
                await _change(client, objects, slot, number)
            except OpsdkError:
                # A restart also cuts these requests: nobody knows whether they were carried out.
                objects.pop(slot, None)
                await asyncio.sleep(3)
                if (current := await client.get_or_none(ConfigMap, f"default/o{slot}")) is not None:
                    objects[slot] = current
        await asyncio.sleep(max(0.0, tick + 0.1 - time.monotonic()))


async def _change(client: Client, objects: dict[int, ConfigMap], slot: int, number: int) -> None:
    current = objects.get(slot)
    if current is None:
        meta = ObjectMeta(name=f"o{slot}", namespace="default", labels={"churn": "yes"})
        objects[slot] = await client.create(ConfigMap(metadata=meta, data={"n": str(number)}))
    elif number % 13 == 0:
        del objects[slot]
        await client.delete(current)
    else:
        current.data["n"] = str(number)
        await client.update(current)


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
    current = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert current is not None
    return int(current.group(1)) / 1024


async def run(seconds: float = 3600.0) -> None:
    """Run the operator against the churning server."""
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.runtime.churn", str(seconds + 120), stdin=pipe, stdout=pipe
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as kubeconfig:
        kubeconfig.write(json.loads(await server.stdout.readline()))
        kubeconfig.flush()
        config = load_config(kubeconfig=kubeconfig.name)
    reconciled: dict[str, str] = {}
    operator = Operator("churn")

    @operator.reconciler(ConfigMap)
    async def reconcile(request: Request) -> None:
        current = await operator.client.get_or_none(ConfigMap, request.key)
        if current is None:
            reconciled.pop(str(request), None)
            return
        reconciled[str(request)] = current.metadata.resource_version
        if current.data.get("n", "").endswith("00"):
            # A request now and then, so that failing ones are part of it.
            await operator.client.get(ConfigMap, request.key, uncached=True)

    task = asyncio.create_task(operator.start(config))
    began = time.monotonic()
    print("  minute   objects   lists  watches   RSS MB")
    try:
        while time.monotonic() - began < seconds:
            await asyncio.sleep(PAUSE_EVERY)
            for action in ("pause", "resume"):
                server.stdin.write(b"\n")
                await server.stdout.readline()
                if action == "pause":
                    await _check(operator, reconciled, (time.monotonic() - began) / 60)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        server.terminate()
        await server.wait()


async def _check(operator: Operator, reconciled: dict[str, str], minute: float) -> None:
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
    print(f"  {minute:6.1f}  {len(store):8} {counts['list']:7} {counts['watch']:8} {resident():8.1f}", flush=True)


async def serve_names(names: int) -> None:
    """Create and delete `names` objects, a batch at a time.

    Writes a kubeconfig to stdout as one line of JSON, and the number of names after each twentieth. Begins at a line on
    stdin, and ends at the second one.
    """
    async with Environment(controllers=["garbage-collector-controller"]) as env, Cluster(env.config) as cluster:
        web = await env.serve()
        user = env.add_user("operator", groups=["system:masters"])
        print(json.dumps(user.kubeconfig(web)), flush=True)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.readline()
        step = max(names // STEPS, BATCH)
        for begin in range(0, names, BATCH):
            metas = [ObjectMeta(name=f"n{begin + number}", namespace="default") for number in range(BATCH)]
            objects = [await cluster.uncached.create(ConfigMap(metadata=meta)) for meta in metas]
            await _wait_for_children(cluster.uncached, BATCH)
            for obj in objects:
                await cluster.uncached.delete(obj)
            await _wait_for_children(cluster.uncached, 0)
            if (begin + BATCH) % step == 0:
                print(begin + BATCH, flush=True)
        await reader.readline()


async def _wait_for_children(client: Client, count: int) -> None:
    """Return when the operator has made `count` children, or the garbage collector has deleted them."""
    while len(await client.list(metadata_only(Secret), namespace="default")) != count:
        await asyncio.sleep(0.05)


def _replica(name: str) -> Operator:
    options = OperatorOptions(
        leader_election=True, leader_election_id="churn", leader_election_namespace="default", journal_size=100
    )
    operator = Operator(name, options)

    def broken(obj: Secret) -> list[Request]:
        raise RuntimeError(f"no request for {obj.metadata.name}")

    @operator.reconciler(ConfigMap, owns=[Secret], watches=[WatchSpec(kind=Secret, handler=broken)])
    async def reconcile(obj: ConfigMap, ctx: Context) -> None:
        if obj.metadata.namespace != "default" or not obj.metadata.name.startswith("n"):
            return
        await ctx.apply(Secret(metadata=ObjectMeta(name=obj.metadata.name), string_data={"name": obj.metadata.name}))
        if obj.metadata.name.endswith("0"):
            ctx.event("Applied", "applied the secret")

    return operator


async def run_names(names: int) -> None:
    """Run a leader and a standby against a server with `names` short-lived objects."""
    logging.getLogger("opsdk").setLevel(logging.CRITICAL)
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.runtime.churn", "--names", str(names), stdin=pipe, stdout=pipe
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as kubeconfig:
        kubeconfig.write(json.loads(await server.stdout.readline()))
        kubeconfig.flush()
        config = load_config(kubeconfig=kubeconfig.name)
    tasks = []
    for name in ("leader", "standby"):
        tasks.append(asyncio.create_task(_replica(name).start(config)))
        await asyncio.sleep(3)
    samples: list[tuple[int, float]] = []
    print("     names   RSS MB   tasks")
    try:
        server.stdin.write(b"\n")
        while not samples or samples[-1][0] < names - names % BATCH:
            count = int(await server.stdout.readline())
            gc.collect()
            samples.append((count, resident()))
            print(f"  {count:8} {samples[-1][1]:8.1f} {len(asyncio.all_tasks()):7}", flush=True)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.stdin.write(b"\n")
        await server.wait()
    late = samples[len(samples) // 2 :]
    slope = statistics.linear_regression(*zip(*late, strict=True)).slope * 1024 * 1024 if len(late) > 1 else 0.0
    print(f"  slope: {slope:.0f} bytes for each name, over the second half")
    if slope > MAX_SLOPE:
        raise AssertionError(f"the memory grows by {slope:.0f} bytes for each name, more than {MAX_SLOPE:.0f}")


if __name__ == "__main__":
    asyncio.run(serve_names(int(sys.argv[2])) if sys.argv[1] == "--names" else serve(float(sys.argv[1])))
