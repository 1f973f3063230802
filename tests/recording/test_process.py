"""A real operator that records itself on a real server with TLS, is stopped or killed, and is replayed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
from processes import until

from opsdk import ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.builder.flags import parse_flags
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.recording.reading import load_recording
from opsdk.recording.records import ExchangeBegan
from opsdk.rest.load import load_config

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

_DIGEST = re.compile(b"digest:|ZGlnZXN0")
"""What stands for a value of a Secret, as text or in base64."""
PASSWORD = "correct-horse-battery-staple"

# A reconciler that copies a Secret into another one, and its password into a ConfigMap, as careless ones do.
OPERATOR = """
import asyncio
from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap, Secret

operator = Operator("copier")

@operator.reconciler(Secret, owns=[ConfigMap])
async def reconcile(secret: Secret, ctx: Context) -> None:
    if "password" not in secret.data or secret.metadata.name.endswith("-copy"):
        return
    name = secret.metadata.name
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=name), data={"url": f"db://{secret.data['password'].decode()}@db"}))
    await ctx.apply(Secret(metadata=ObjectMeta(name=f"{name}-copy"), data=secret.data))

if __name__ == "__main__":
    operator.main()
"""

# Plain functions in threads: each reads what the others have written, after a sleep of another length in each run.
THREADS = """
import random
import time
from opsdk import BlockingContext, ControllerOptions, ObjectMeta, Operator, OperatorOptions
from opsdk.api.core.v1 import ConfigMap, Secret

controller = ControllerOptions(max_concurrent_reconciles=4, blocking_threads=3)
operator = Operator("copier", OperatorOptions(controller=controller))
chance = random.SystemRandom()

@operator.reconciler(Secret, owns=[ConfigMap])
def reconcile(secret: Secret, ctx: BlockingContext) -> None:
    name = secret.metadata.name
    if name.endswith("-copy"):
        return
    for step in range(4):
        time.sleep(chance.random() / 100)
        seen = ctx.client.list(ConfigMap, namespace="default")
        versions = " ".join(sorted(f"{each.metadata.name}:{each.metadata.resource_version}" for each in seen))
        ctx.apply(ConfigMap(metadata=ObjectMeta(name=f"{name}-{step}"), data={"seen": versions}))
    time.sleep(chance.random() / 100)
    ctx.apply(ConfigMap(metadata=ObjectMeta(name=name), data={"seen": "all"}))
    ctx.apply(Secret(metadata=ObjectMeta(name=f"{name}-copy")))

if __name__ == "__main__":
    operator.main()
"""


@contextmanager
def server(folder: Path) -> Iterator[Path]:
    """Run an API server; yields its kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "opsdk.cli", "apiserver", "--kubeconfig", str(kubeconfig)]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([*command, "--port", "0"], stdout=log, stderr=log)
    try:
        subprocess.run([*command, "--wait"], check=True, timeout=60)
        yield kubeconfig
    finally:
        process.terminate()
        process.wait(60)


class RecordedOperator:
    """The process of an operator that records itself.

    Args:
        folder: for its files.
        kubeconfig: of the server.
        text: of the program.
    """

    def __init__(self, folder: Path, kubeconfig: Path, text: str = OPERATOR) -> None:
        self.program = folder / "copier.py"
        self.program.write_text(text)
        self.recordings, self.log = folder / "recordings", folder / "operator.log"
        flags = ["--kubeconfig", str(kubeconfig), "--leader-elect", "--recording-dir", str(self.recordings)]
        flags += ["--health-probe-bind-address", "127.0.0.1:0", "--debug-bind-address", "127.0.0.1:0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(self.program), *flags],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONHASHSEED": "1"},
            )

    def has_last_copy(self) -> bool:
        """Whether the recording has the last write of the operator."""
        records = load_recording(self.recordings).records
        return any(isinstance(record, ExchangeBegan) and "db-2-copy" in record.target for record in records)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(60)

    def end(self, signal_number: signal.Signals) -> None:
        """Send a signal, and wait for the end of the process."""
        self.process.send_signal(signal_number)
        self.process.wait(60)


async def change_secrets(kubeconfig: Path) -> None:
    """Create three Secrets, change them, and wait until the operator has copied them."""
    async with Cluster(load_config(kubeconfig=kubeconfig)) as cluster:
        client = cluster.uncached
        for number in range(3):
            meta = ObjectMeta(name=f"db-{number}", namespace="default")
            secret = await client.create(Secret(metadata=meta, data={"password": f"{PASSWORD}-{number}".encode()}))
            secret.data["user"] = b"admin"
            await client.update(secret)
            await copied(client, f"db-{number}")


async def copied(client: Client, name: str) -> None:
    """Wait until the copies of a Secret exist."""
    for _ in range(600):
        names = {each.metadata.name for each in await client.list(Secret, namespace="default")}
        names &= {each.metadata.name + "-copy" for each in await client.list(ConfigMap, namespace="default")}
        if f"{name}-copy" in names:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is not copied")


def load_operator(recorded: RecordedOperator, timeline: Timeline) -> Operator:
    """Return the operator of the program, with the flags of the process."""
    names: dict[str, object] = {"__name__": "copier"}
    exec(recorded.program.read_text(), names)
    operator = names["operator"]
    assert isinstance(operator, Operator)
    operator.options, _ = parse_flags("copier", operator.options, timeline.began.arguments, {})
    return operator


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_is_replayed_byte_for_byte(tmp_path: Path, signal_number: signal.Signals) -> None:
    """Leader election, times and jitter included. No password is in the files."""
    with server(tmp_path) as kubeconfig, RecordedOperator(tmp_path, kubeconfig) as recorded:
        asyncio.run(change_secrets(kubeconfig))
        # The writer is a second behind.
        until(recorded.has_last_copy, recorded.log)
        recorded.end(signal_number)
    recording = load_recording(recorded.recordings)
    timeline = Timeline(recording.records)
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        outcome = replay.run()
    assert outcome.requests > 15
    hidden = [
        each for each in outcome.divergences if b"digest:" not in each.recorded and b"ZGlnZXN0" not in each.recorded
    ]
    assert not hidden, list(map(str, hidden))
    assert not outcome.unsent
    assert outcome.identical > 10
    assert bool(recording.problems) == (signal_number == signal.SIGKILL)
    check_hidden(recorded.recordings)


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_threads_are_replayed_in_the_same_iterations(tmp_path: Path, signal_number: signal.Signals) -> None:
    """Whatever their sleeps are: a thread is held back until the recorded loop saw it."""
    with server(tmp_path) as kubeconfig, RecordedOperator(tmp_path, kubeconfig, THREADS) as recorded:
        asyncio.run(change_secrets(kubeconfig))
        until(recorded.has_last_copy, recorded.log)
        recorded.end(signal_number)
    timeline = Timeline(load_recording(recorded.recordings).records)
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        outcome = replay.run()
    assert outcome.requests > 25
    assert outcome.is_identical, [*map(str, outcome.divergences[:3]), *outcome.unsent[:3]]


def check_hidden(folder: Path) -> None:
    """No file has a password, in any form."""
    for file in folder.iterdir():
        content = file.read_bytes()
        text = zlib.decompressobj().decompress(content.partition(b"\n")[2])
        assert len(text) > 10_000
        for form in (PASSWORD.encode(), b"Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZ", b"PRIVATE KEY", b"Bearer"):
            assert form not in text
