"""Requests to steve in a process of its own, which reads a server in another process; see `benchmarks.runtime.steve`."""

from __future__ import annotations

import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchmarks.runtime.stage import ROOT

Tree = dict[str, Any]

_GROUP = "bench.example.org"
_SORTED = "sort=-metadata.creationTimestamp&pagesize=100"
_QUERIES = {
    "first page by name": "pagesize=100",
    "first page by state": "sort=metadata.state.name&pagesize=100",
    "last page by age": f"{_SORTED}&page={{last}}",
    "filter and sort": f"filter=status.phase=Running&{_SORTED}&page=3",
    "rare value": f"filter=status.podIP~.77.77&{_SORTED}",
}
_FILLERS = 4
# Seconds in which an event reaches the list of steve.
_SETTLED = 0.03


class HttpApi:
    """One connection with a bearer token; it blocks."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    def send(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
        """Return the body of the response. Raises `SystemExit` if it is an error."""
        self._connection.request(method, path, body, {**self._headers, "Content-Type": kind})
        response = self._connection.getresponse()
        data = response.read()
        if response.status >= http.client.BAD_REQUEST:
            raise SystemExit(f"{method} {path}: {response.status} {data[:500]!r}")
        return data


class SteveProcess:
    """A running `benchmarks.runtime.steve_server`."""

    def __init__(self, kubeconfig: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.runtime.steve_server", str(kubeconfig)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self.url = self._output.readline().strip()

    def figures(self) -> Mapping[str, float]:
        """Return the CPU seconds since the start, and the longest stall since the last call."""
        print(file=self._input)
        figures: Mapping[str, float] = json.loads(self._output.readline())
        return figures

    def cpu(self) -> float:
        """Return the CPU seconds of the main thread since the start."""
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0]) / 1e9

    def close(self) -> None:
        """End the process."""
        self._input.close()
        self._process.wait(30)


@contextmanager
def _processes() -> Iterator[tuple[HttpApi, SteveProcess, Mapping[str, str]]]:
    """Start both processes; yields the API of the cluster, steve, and the tokens of users."""
    tokens = {name: f"token-of-{name}" for name in ("root", "names", "namespaces")}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "tokens"
        groups = {"root": "system:masters"}
        table.write_text("".join(f'{token},{name},{name},"{groups.get(name, "people")}"\n' for name, token in tokens.items()))
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "envtest", "serve", "--port", "0", "--no-tls", "--exit-with-parent"]
        command += ["--kubeconfig", str(kubeconfig), "--token-auth-file", str(table)]
        import os
        if os.environ.get("DATA"):
            command += ["--data-dir", os.environ["DATA"]]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        try:
            assert server.stdout is not None
            server.stdout.readline()
            url = next(line.split()[-1] for line in kubeconfig.read_text().splitlines() if "server:" in line)
            yield HttpApi(url.strip('"'), tokens["root"]), SteveProcess(kubeconfig), tokens
        finally:
            server.kill()
            server.wait()


def run(count: int, rounds: int, pod: Any) -> float:
    """Print the figures; returns the largest median in milliseconds of CPU."""
    with _processes() as (api, steve, tokens):
        try:
            return _measure(api, steve, tokens, count, rounds, pod)
        finally:
            steve.close()


def _measure(
    api: HttpApi, steve: SteveProcess, tokens: Mapping[str, str], count: int, rounds: int, pod: Any
) -> float:
    chance = random.Random(2)
    _fill(api, count, pod)
    users = {name: HttpApi(steve.url, token) for name, token in tokens.items()}
    users["root"].send("GET", "/v1/namespaces?pagesize=1")
    steve.figures()
    for text in ("pagesize=100", *(list(_QUERIES.values())[1:])):
        cpu, began = steve.cpu(), time.perf_counter()
        users["root"].send("GET", f"/v1/{_GROUP}.machines?{text.format(last=1)}")
        wall, spent, figures = time.perf_counter() - began, steve.cpu() - cpu, steve.figures()
        print(f"  first use of {text:70} {wall * 1e3:7.0f} ms, CPU {spent * 1e3:7.0f} ms, stall {figures['stall'] * 1e3:5.1f} ms CPU {figures['stall_wall'] * 1e3:5.1f} wall")
    worst = 0.0
    print("CPU p50, p99; wall p50, p99; stall")
    for user, connection in users.items():
        for title, text in _QUERIES.items():
            path = f"/v1/{_GROUP}.machines?{text}"
            body = json.loads(connection.send("GET", path.format(last=1)))
            path = path.format(last=body.get("pages") or 1)
            connection.send("GET", path)
            cpus, walls = [], []
            steve.figures()
            for _ in range(rounds):
                number = chance.randrange(count)
                machine = _machine(number, pod, chance)
                api.send("PATCH", _path(number), machine, "application/merge-patch+json")
                time.sleep(_SETTLED)
                cpu, began = steve.cpu(), time.perf_counter()
                connection.send("GET", path)
                walls.append(time.perf_counter() - began)
                cpus.append(steve.cpu() - cpu)
            stall = steve.figures()["stall"]
            worst = max(worst, statistics.median(cpus))
            print(f"  {user:12} {title:20} {body['count']:7} {_ms(cpus)}  {_ms(walls)} {stall*1e3:7.1f}", flush=True)
    return worst * 1e3


def _ms(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{statistics.median(ordered) * 1e3:7.1f} {ordered[int(len(ordered) * 0.99)] * 1e3:7.1f}"


def _machine(number: int, pod: Any, chance: random.Random) -> bytes:
    tree = msgspec.json.decode(pod(number, 1, chance))
    del tree["metadata"]["resourceVersion"], tree["metadata"]["uid"]
    return msgspec.json.encode({**tree, "apiVersion": f"{_GROUP}/v1", "kind": "Machine"})


def _path(number: int) -> str:
    return f"/apis/{_GROUP}/v1/namespaces/ns-{number % 50}/machines/pod-{number:05}"


def _fill(api: HttpApi, count: int, pod: Any) -> None:
    """Create the type, the namespaces, the rights, and the objects."""
    began = time.perf_counter()
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    try:
        api.send("GET", _path(count - 1))
        print(f"filled already in {time.perf_counter() - began:.1f}")
        return
    except SystemExit:
        pass
    api.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json.dumps(_DEFINITION).encode())
    for number in range(50):
        name = {"metadata": {"name": f"ns-{number}"}}
        api.send("POST", "/api/v1/namespaces", json.dumps(name).encode())
    rules = {"names": [{"names": ["pod-00003", "pod-00053"]}], "namespaces": [{}, {}]}
    for user, parts in rules.items():
        for number, part in enumerate(parts):
            namespace = f"{rbac}/namespaces/ns-{number + 3}"
            rule = {"apiGroups": [_GROUP], "resources": ["machines"], "verbs": ["get", "list", "watch"]}
            if "names" in part:
                rule["resourceNames"] = part["names"]
            role: Tree = {"metadata": {"name": user}, "rules": [rule]}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
            binding: Tree = {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
            api.send("POST", f"{namespace}/roles", json.dumps(role).encode())
            api.send("POST", f"{namespace}/rolebindings", json.dumps(binding).encode())
    url = f"http://{api._connection.host}:{api._connection.port}"
    token = api._headers["Authorization"].split()[1]

    def fill(part: int) -> None:
        own, chance = HttpApi(url, token), random.Random(part)
        for number in range(part, count, _FILLERS):
            own.send("POST", _path(number).rpartition("/")[0], _machine(number, pod, chance))

    with ThreadPoolExecutor(_FILLERS) as pool:
        list(pool.map(fill, range(_FILLERS)))
    print(f"filled in {time.perf_counter() - began:.1f}")


_COLUMNS = {"Phase": ".status.phase", "Node": ".spec.nodeName", "Address": ".status.podIP"}
_DEFINITION: Tree = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"machines.{_GROUP}"},
    "spec": {
        "group": _GROUP,
        "names": {"kind": "Machine", "listKind": "MachineList", "plural": "machines", "singular": "machine"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "additionalPrinterColumns": [
                    {"name": name, "type": "string", "jsonPath": path} for name, path in _COLUMNS.items()
                ],
            }
        ],
    },
}
