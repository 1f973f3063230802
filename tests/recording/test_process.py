"""A real operator that records itself on a real server with TLS, is stopped or killed, and is replayed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import zlib
from pathlib import Path
from typing import Self

import pytest
import yaml
from processes import until
from sample_projects import OPERATORS, project_of

from opsdk import ObjectMeta, Unstructured
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.apimachinery.secret_values import LAST_APPLIED
from opsdk.client.client import Client
from opsdk.cluster.cluster import Cluster
from opsdk.engine.replay.run import OperatorReplay, PlaceKind, ReplayPlace
from opsdk.engine.replay.state import snapshot_of
from opsdk.engine.replay.timeline import Timeline
from opsdk.errors import UsageError
from opsdk.recording.reading import load_recording
from opsdk.recording.storage import SUFFIX, file_names
from opsdk.rest.load import load_config
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.webhooks import free_port
from tests.recording.recorded_processes import RecordedOperator, load_operator, server

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

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

# The same with a kind of its own, whose spec has the password.
ACCOUNTS = (
    OPERATOR.replace(
        'operator = Operator("copier")',
        """from typing import Annotated
from opsdk import GroupVersionKind, Model, Object
from opsdk.apimachinery.crd import json_schema

class AccountSpec(Model):
    password: Annotated[str, json_schema({"format": "password"})] = ""

class Account(Object[AccountSpec, None]):
    gvk = GroupVersionKind("accounts.example.com", "v1", "Account")

operator = Operator("copier")""",
    )
    .replace("secret: Secret", "account: Account")
    .replace("(Secret, owns=[ConfigMap])", "(Account, owns=[ConfigMap, Secret])")
    .replace('    if "password" not in secret.data or secret.metadata.name.endswith("-copy"):\n        return\n', "")
    .replace("secret.metadata", "account.metadata")
    .replace("{secret.data['password'].decode()}", "{account.spec.password}")
    .replace("data=secret.data", 'data={"password": account.spec.password.encode()}')
)

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


async def change_secrets(kubeconfig: Path, prefix: str = "db") -> None:
    """Create three Secrets, change them, and wait until the operator has copied them."""
    async with Cluster(load_config(kubeconfig=kubeconfig)) as cluster:
        client = cluster.uncached
        for number in range(3):
            meta = ObjectMeta(name=f"{prefix}-{number}", namespace="default")
            secret = await client.create(Secret(metadata=meta, data={"password": f"{PASSWORD}-{number}".encode()}))
            secret.data["user"] = b"admin"
            await client.update(secret)
            await copied(client, f"{prefix}-{number}")


async def copied(client: Client, name: str) -> None:
    """Wait until the copies of a Secret exist."""
    for _ in range(600):
        names = {each.metadata.name for each in await client.list(Secret, namespace="default")}
        names &= {each.metadata.name + "-copy" for each in await client.list(ConfigMap, namespace="default")}
        if f"{name}-copy" in names:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is not copied")


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_is_replayed_byte_for_byte(tmp_path: Path, signal_number: signal.Signals) -> None:
    """Leader election, times and jitter included. No password is in the files."""
    with server(tmp_path) as kubeconfig, RecordedOperator(tmp_path, kubeconfig, OPERATOR) as recorded:
        asyncio.run(change_secrets(kubeconfig))
        # The writer is a second behind.
        until(lambda: recorded.has_written("db-2-copy"), recorded.log)
        recorded.end(signal_number)
    recording = load_recording(recorded.recordings)
    timeline = Timeline(recording.records)
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        outcome = replay.run()
        if signal_number == signal.SIGTERM:
            # A plan of nothing would say that all is well.
            with pytest.raises(UsageError, match="it has not started or has stopped; name a place"):
                snapshot_of(replay)
        else:
            assert snapshot_of(replay).objects
    assert outcome.requests > 15
    assert outcome.is_identical, [*map(str, outcome.divergences[:3]), *outcome.unsent[:3]]
    assert bool(recording.problems) == (signal_number == signal.SIGKILL)
    check_hidden(recorded.recordings)


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_threads_are_replayed_in_the_same_iterations(tmp_path: Path, signal_number: signal.Signals) -> None:
    """Whatever their sleeps are: a thread is held back until the recorded loop saw it."""
    with server(tmp_path) as kubeconfig, RecordedOperator(tmp_path, kubeconfig, THREADS) as recorded:
        asyncio.run(change_secrets(kubeconfig))
        until(lambda: recorded.has_written("db-2-copy"), recorded.log)
        recorded.end(signal_number)
    timeline = Timeline(load_recording(recorded.recordings).records)
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        outcome = replay.run()
    assert outcome.requests > 25
    assert outcome.is_identical, [*map(str, outcome.divergences[:3]), *outcome.unsent[:3]]


async def change_accounts(kubeconfig: Path) -> None:
    """Create the kind and three objects as ``kubectl apply`` does, and wait until the operator has copied them."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {}}}}
    schema["properties"]["spec"]["properties"] = {"password": {"type": "string", "format": "password"}}  # type: ignore[index]
    names = {"kind": "Account", "listKind": "AccountList", "plural": "accounts", "singular": "account"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "accounts.accounts.example.com"},
        "spec": {"group": "accounts.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    async with Cluster(load_config(kubeconfig=kubeconfig)) as cluster:
        await cluster.uncached.create(Unstructured.from_tree(definition))
        for number in range(3):
            spec = {"password": f"{PASSWORD}-{number}"}
            metadata = {"name": f"db-{number}", "namespace": "default"}
            account = {"apiVersion": "accounts.example.com/v1", "kind": "Account", "metadata": metadata, "spec": spec}
            applied = {**metadata, "annotations": {LAST_APPLIED: json.dumps(account)}}
            await cluster.uncached.create(Unstructured.from_tree({**account, "metadata": applied}))
            await copied(cluster.uncached, f"db-{number}")


def test_a_password_in_a_spec_is_hidden(tmp_path: Path) -> None:
    """With its copies, and in the annotation of kubectl. The replay is identical."""
    with server(tmp_path) as kubeconfig, RecordedOperator(tmp_path, kubeconfig, ACCOUNTS) as recorded:
        asyncio.run(change_accounts(kubeconfig))
        until(lambda: recorded.has_written("db-2-copy"), recorded.log)
        recorded.end(signal.SIGTERM)
    timeline = Timeline(load_recording(recorded.recordings).records)
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        outcome = replay.run()
    assert outcome.requests > 15
    assert outcome.is_identical, [*map(str, outcome.divergences[:3]), *outcome.unsent[:3]]
    check_hidden(recorded.recordings)


CLOCKS = OPERATOR.replace("import asyncio\n", "from datetime import datetime\n").replace(
    'data={"url":', 'data={"at": datetime.now().isoformat(), "url":'
)


def test_what_a_recording_lacks_is_named_when_it_begins(tmp_path: Path) -> None:
    """In the log of the process, and in the replay, which shows both values of the field."""
    with server(tmp_path) as kubeconfig, RecordedOperator(tmp_path, kubeconfig, CLOCKS) as recorded:
        asyncio.run(change_secrets(kubeconfig))
        until(lambda: recorded.has_written("db-2-copy"), recorded.log)
        recorded.end(signal.SIGTERM)
    timeline = Timeline(load_recording(recorded.recordings).records)
    (lacking,) = timeline.began.unrecorded
    assert lacking.startswith("datetime.now (copier.py:")
    assert f"the recording does not have {lacking}" in recorded.log.read_text()
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        outcome = replay.run()
    (detail, *_) = outcome.divergences[0].details
    assert detail.startswith("data.at: recorded '")
    assert "', replayed '" in detail
    assert PASSWORD not in detail


def check_hidden(folder: Path) -> None:
    """No file has a password, in any form."""
    texts = [zlib.decompressobj().decompress(file.read_bytes().partition(b"\n")[2]) for file in folder.iterdir()]
    assert sum(map(len, texts)) > 10_000
    for text in texts:
        for form in (PASSWORD.encode(), b"Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZ", b"PRIVATE KEY", b"Bearer"):
            assert form not in text


def with_old_files_gone(text: str) -> str:
    """Return a program whose recording has files of half a second, which go after four seconds."""
    main = 'if __name__ == "__main__":\n'
    change = "    operator.options = replace(operator.options, recording=RecordingOptions(max_age=4))\n"
    imports = "from msgspec.structs import replace\nfrom opsdk.recording.options import RecordingOptions\n"
    return imports + text.replace(main, main + change)


def has_no_start(recorded: RecordedOperator) -> bool:
    """Whether the ring has dropped the file with the start of the process."""
    files = file_names(recorded.recordings)
    return bool(files) and not files[0].name.endswith("-000000" + SUFFIX)


# Without versions: the operator would cause its own reconciles, and a checkpoint needs a moment without one.
CALM_THREADS = THREADS.replace('f"{each.metadata.name}:{each.metadata.resource_version}"', "each.metadata.name")


@pytest.mark.parametrize("text", [OPERATOR, CALM_THREADS], ids=["coroutines", "threads"])
def test_a_replay_begins_with_a_checkpoint(tmp_path: Path, text: str) -> None:
    """The ring has dropped the start. What follows the checkpoint is identical: requests, renewals, times."""
    with server(tmp_path) as kubeconfig, RecordedOperator(tmp_path, kubeconfig, with_old_files_gone(text)) as recorded:
        asyncio.run(change_secrets(kubeconfig, "before"))
        until(lambda: has_no_start(recorded), recorded.log)
        asyncio.run(change_secrets(kubeconfig, "after"))
        until(lambda: recorded.has_written("after-2-copy"), recorded.log)
        recorded.end(signal.SIGTERM)
    recording = load_recording(recorded.recordings)
    timeline = Timeline(recording.records)
    assert timeline.checkpoint is not None
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        replay.run(ReplayPlace(PlaceKind.RECONCILE, 5))
        names = {str(obj["metadata"]["name"]) for obj in replay.objects() if obj["kind"] == "Secret"}
        outcome = replay.run()
    assert {"before-0", "before-2-copy"} <= names
    assert outcome.is_identical, [*map(str, outcome.divergences[:3]), *outcome.unsent[:3]]
    assert [each.result for each in replay.reconciles].count("success") > 5
    check_hidden(recorded.recordings)


# It fails for an object that has no annotations, as those of others have.
FAILING = OPERATOR.replace(
    "    name = secret.metadata.name\n", '    name = secret.metadata.name\n    secret.metadata.annotations["owner"]\n'
)
# It ends by an error of its own.
ENDING = OPERATOR.replace(
    "    name = secret.metadata.name\n", "    name = secret.metadata.name\n    operator.manager.add(Failing())\n"
).replace(
    "@operator.reconciler",
    """class Failing:
    def needs_leader_election(self) -> bool:
        return False

    async def start(self) -> None:
        raise OSError("the disk is gone")

@operator.reconciler""",
)


@pytest.mark.parametrize("text", [FAILING, ENDING], ids=["reconcile", "end"])
def test_an_unexpected_error_saves_the_recording(tmp_path: Path, text: str) -> None:
    """One of a reconcile, or the end of the operator. Until then, it is in memory."""
    with server(tmp_path) as kubeconfig, RecordedOperator(tmp_path, kubeconfig, text, "on-panic") as recorded:
        until(lambda: "starts its workers" in recorded.log.read_text(), recorded.log)
        assert not file_names(recorded.recordings)
        asyncio.run(make_secret(kubeconfig))
        until(lambda: file_names(recorded.recordings), recorded.log)
        # The file is there before all is in it, and an operator that ends handles no signals any more.
        until(lambda: "the recording is saved in" in recorded.log.read_text(), recorded.log)
        recorded.end(signal.SIGTERM)
    assert "the recording is saved in" in recorded.log.read_text()
    replay_saved(recorded)


def test_a_request_saves_the_recording(tmp_path: Path) -> None:
    """``POST /debug/recording``, while the operator goes on."""
    with (
        server(tmp_path) as kubeconfig,
        RecordedOperator(tmp_path, kubeconfig, OPERATOR, mode="on-request") as recorded,
    ):
        asyncio.run(change_secrets(kubeconfig))
        assert not file_names(recorded.recordings)
        headers = {"Content-Type": "application/json"}
        url = f"http://{recorded.debug_address}/debug/recording"
        request = urllib.request.Request(url, b"{}", headers, method="POST")
        with urllib.request.urlopen(request, timeout=30) as response:
            assert b"is saved in" in response.read()
        until(lambda: file_names(recorded.recordings), recorded.log)
        recorded.end(signal.SIGTERM)
    replay_saved(recorded)


async def make_secret(kubeconfig: Path) -> None:
    """Create a Secret that the operator copies."""
    async with Cluster(load_config(kubeconfig=kubeconfig)) as cluster:
        meta = ObjectMeta(name="db-0", namespace="default")
        await cluster.uncached.create(Secret(metadata=meta, data={"password": PASSWORD.encode()}))


def replay_saved(recorded: RecordedOperator) -> None:
    """Replay what a process has saved."""
    timeline = Timeline(load_recording(recorded.recordings).records)
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        outcome = replay.run()
    assert outcome.requests > 5
    assert outcome.is_identical, [*map(str, outcome.divergences[:3]), *outcome.unsent[:3]]
    check_hidden(recorded.recordings)


# ------------------------------------------------------------------ samples
SERVICES = {"application": ("fake_dns", "DNS_SERVICE"), "database": ("fake_service", "DATABASE_SERVICE")}


class DeployedSample:
    """A sample whose manifests are applied, and whose operator runs as a process with the arguments of its Deployment.

    Args:
        name: of the sample's folder.
        folder: for its files. A sample without manifests gets those that opsdk generates.
        kubeconfig: of the server.
    """

    def __init__(self, name: str, folder: Path, kubeconfig: Path) -> None:
        self.sample, self.package = project_of(name, folder), name.replace("-", "_")
        if not (self.sample / "config/crd").exists():
            command = [sys.executable, "-m", "opsdk.cli", "generate", "manifests"]
            subprocess.run(command, cwd=self.sample, check=True, timeout=120, stdout=subprocess.DEVNULL)
        self.recordings, self.log = folder / "recordings", folder / "operator.log"
        self.environment = {**os.environ, "PYTHONHASHSEED": "1"}
        self._kubeconfig = kubeconfig
        self._webhooks = free_port()
        self._arguments: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait(60)
            if process.stdout is not None:
                process.stdout.close()

    def manifests(self, pattern: str) -> list[JsonObject]:
        """Return the objects of the files that match a pattern."""
        files = sorted((self.sample / "config").glob(pattern))
        return [obj for file in files for obj in yaml.safe_load_all(file.read_text()) if obj]

    def deploy(self) -> None:
        """Apply the manifests, and start the operator."""
        objects = [obj for pattern in ("namespace.yaml", "crd/*.yaml") for obj in self.manifests(pattern)]
        objects += [obj for obj in self.manifests("*.yaml") if obj["kind"] != "Namespace"]
        [deployment] = [obj for obj in objects if obj["kind"] == "Deployment"]
        for obj in objects:
            if obj["kind"] == "Service" and obj["metadata"]["name"].endswith("-webhooks"):
                obj["metadata"]["annotations"] = {"envtest.opsdk.dev/address": f"127.0.0.1:{self._webhooks}"}
        others = {"ServiceMonitor", "Kustomization", "Deployment"}
        asyncio.run(self._create([obj for obj in objects if obj["kind"] not in others]))
        self._start_service()
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        arguments = [re.sub("(bind-address)=:[0-9]+", r"\1=127.0.0.1:0", argument) for argument in container["args"]]
        arguments += ["--kubeconfig", str(self._kubeconfig), "--namespace", deployment["metadata"]["namespace"]]
        if any(argument.startswith("--webhook-service") for argument in arguments):
            arguments += ["--webhook-port", str(self._webhooks)]
        self._arguments = arguments
        self.start()

    def start(self) -> None:
        """Start the operator, with a recording of its own."""
        shutil.rmtree(self.recordings, ignore_errors=True)
        self._run(["-m", self.package, *self._arguments, "--recording-dir", str(self.recordings)], self.log)
        until(lambda: "starts its workers" in self.log.read_text(), self.log)

    def _start_service(self) -> None:
        """Start the fake of an external service, and tell the operator its address."""
        if self.package in SERVICES:
            program, variable = SERVICES[self.package]
            process = self._run(["-m", program, "0"], None)
            assert process.stdout is not None
            self.environment[variable] = process.stdout.readline().decode().split()[-1]

    def _run(self, arguments: list[str], log: Path | None) -> subprocess.Popen[bytes]:
        with (log or Path(os.devnull)).open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.sample,
                env=self.environment,
                stdout=subprocess.PIPE if log is None else errors,
                stderr=errors,
            )
        self._processes.append(process)
        return process

    async def _create(self, objects: list[JsonObject]) -> None:
        async with Cluster(load_config(kubeconfig=self._kubeconfig)) as cluster:
            for obj in objects:
                await cluster.uncached.create(Unstructured.from_tree(obj))

    def use(self) -> None:
        """Create the sample's objects, and let the operator work on them."""
        time.sleep(2)  # the certificates are published
        asyncio.run(self._create(self.manifests("samples/*.yaml")))
        time.sleep(8)

    def stop(self) -> None:
        """Stop the operator as a kubelet does."""
        self._processes[-1].send_signal(signal.SIGTERM)
        self._processes[-1].wait(60)

    def replay(self) -> subprocess.CompletedProcess[str]:
        """Replay the recording as a user does."""
        command = [sys.executable, "-m", "opsdk.cli", "replay", str(self.recordings)]
        return subprocess.run(
            command, cwd=self.sample, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.mark.parametrize(
    "name",
    [name if name in ("database", "website") else pytest.param(name, marks=pytest.mark.deep) for name in OPERATORS],
)
def test_a_sample_replays_as_its_manifests_deploy_it(name: str, tmp_path: Path) -> None:
    """With leader election, own certificates, webhooks and Secrets: a first start, and a restart that finds them."""
    with server(tmp_path) as kubeconfig, DeployedSample(name, tmp_path, kubeconfig) as sample:
        sample.deploy()
        sample.use()
        sample.stop()
        first = sample.replay()
        sample.start()
        time.sleep(5)
        sample.stop()
        second = sample.replay()
    for replay in (first, second):
        assert replay.returncode == 0, replay.stdout + replay.stderr
        assert re.search(r"all [0-9]{2,} requests are identical", replay.stdout)
