"""Requests to both dialects in a process of their own, which reads a server in another one; see `steve`.

The objects are of a kind with the fields of a Pod, because the server would reset the status of a new Pod.
"""

from __future__ import annotations

import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchmarks.runtime.stage import ROOT
from benchmarks.runtime.steve_pods import pod

Tree = dict[str, Any]

_GROUP = "bench.example.org"
_RBAC = "rbac.authorization.k8s.io"
_SORTED = "sort=-metadata.creationTimestamp&pagesize=100"
_QUERIES = {
    "first page by name": "pagesize=100",
    "first page by node": "sort=spec.nodeName&pagesize=100",
    "last page by age": f"{_SORTED}&page={{last}}",
    "filter and sort": f"filter=status.phase=Running&{_SORTED}&page=3",
    "rare value": f"filter=status.podIP~.77.77&{_SORTED}",
}
_NORMAN_QUERIES = {
    "first page by id": "limit=100",
    "first page by node": "sort=nodeName&limit=100",
    "middle page by age": "sort=created&order=desc&limit=100&marker={middle}",
    "filter and sort": "phase=Running&sort=created&order=desc&limit=100",
}
_DIALECTS = {f"/v1/{_GROUP}.machines": _QUERIES, "/v3/machines": _NORMAN_QUERIES}
_TOKENS = {name: f"token-of-{name}" for name in ("root", "names", "namespaces")}
_NAMESPACES = 50
_FILLERS = 4
_ROUNDS = 100
# Seconds in which an event reaches the list of steve.
_SETTLED = 0.03


class HttpApi:
    """One connection with a bearer token; it blocks."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    def post(self, path: str, tree: Tree) -> None:
        """Create an object."""
        self.send("POST", path, json.dumps(tree).encode())

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

    def stall(self) -> float:
        """Return the longest stall of the event loop since the last call, in CPU seconds."""
        print(file=self._input)
        return float(self._output.readline())

    def cpu(self) -> float:
        """Return the CPU seconds of the main thread since the start."""
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0]) / 1e9

    def close(self) -> None:
        """Let the process end."""
        self._input.close()
        self._process.wait(30)


class ClusterProcess:
    """A running server with the users of `_TOKENS`. Its files are in a folder."""

    def __init__(self, folder: Path) -> None:
        tokens = folder / "tokens"
        groups = {"root": "system:masters"}
        lines = [f'{token},{name},{name},"{groups.get(name, "people")}"\n' for name, token in _TOKENS.items()]
        tokens.write_text("".join(lines))
        self.kubeconfig = folder / "kubeconfig"
        command = [sys.executable, "-m", "envtest", "serve", "--port", "0", "--no-tls", "--exit-with-parent"]
        command += ["--kubeconfig", str(self.kubeconfig), "--token-auth-file", str(tokens)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        words = self.kubeconfig.read_text().split()
        self.url = words[words.index("server:") + 1].strip('"')

    def connect(self) -> HttpApi:
        """Return a connection of the admin."""
        return HttpApi(self.url, _TOKENS["root"])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def run(count: int) -> float:
    """Print the figures. Returns the largest median of CPU milliseconds."""
    with tempfile.TemporaryDirectory() as folder, closing(ClusterProcess(Path(folder))) as cluster:
        _fill(cluster, count)
        with closing(SteveProcess(cluster.kubeconfig)) as steve:
            _first_uses(steve)
            return max(_pages(cluster.connect(), steve, user, count) for user in _TOKENS)


def _fill(cluster: ClusterProcess, count: int) -> None:
    """Create the type, the namespaces, the rights, and the objects."""
    api = cluster.connect()
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _DEFINITION)
    for number in range(_NAMESPACES):
        api.post("/api/v1/namespaces", {"metadata": {"name": f"ns-{number}"}})
    _grant(api, "names", "ns-3", ["pod-00003", "pod-00053"])
    for namespace in ("ns-3", "ns-4"):
        _grant(api, "namespaces", namespace, [])

    def fill(part: int) -> None:
        connection, chance = cluster.connect(), random.Random(part)
        for number in range(part, count, _FILLERS):
            connection.send("POST", _path(number).rpartition("/")[0], _machine(number, chance))

    with ThreadPoolExecutor(_FILLERS) as pool:
        list(pool.map(fill, range(_FILLERS)))


def _grant(api: HttpApi, user: str, namespace: str, names: list[str]) -> None:
    prefix = f"/apis/{_RBAC}/v1/namespaces/{namespace}"
    rule = {"apiGroups": [_GROUP], "resources": ["machines"], "verbs": ["get", "list"], "resourceNames": names}
    api.post(f"{prefix}/roles", {"metadata": {"name": user}, "rules": [rule]})
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": user}
    subject = {"apiGroup": _RBAC, "kind": "User", "name": user}
    api.post(f"{prefix}/rolebindings", {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]})


def _first_uses(steve: SteveProcess) -> None:
    """Print the first request of the type, and those that read a field first."""
    print("\nthrough HTTP, first uses: ms, CPU ms, longest stall of the event loop in CPU ms")
    api = HttpApi(steve.url, _TOKENS["root"])
    api.send("GET", "/v1/namespaces?pagesize=1")  # the first request checks the token
    steve.stall()
    for path, queries in _DIALECTS.items():
        for title, text in queries.items():
            cpu, began = steve.cpu(), time.perf_counter()
            api.send("GET", f"{path}?{text.format(last=1, middle='')}")
            wall, spent = time.perf_counter() - began, steve.cpu() - cpu
            print(f"  {path[:3]} {title:20} {wall * 1e3:7.0f} {spent * 1e3:7.0f} {steve.stall() * 1e3:6.1f}")


def _pages(cluster: HttpApi, steve: SteveProcess, user: str, count: int) -> float:
    """Print the pages of a user, each after a change of an object. Returns the largest median of CPU milliseconds."""
    print(f"user {user}: objects; CPU ms, median and p99; ms, median and p99; longest stall")
    api, chance, medians = HttpApi(steve.url, _TOKENS[user]), random.Random(2), []
    for path, queries in _DIALECTS.items():
        for title, text in queries.items():
            first = json.loads(api.send("GET", f"{path}?{text.format(last=1, middle='')}"))
            middle = f"ns-{count // 2 % _NAMESPACES}:pod-{count // 2:05}"
            url = f"{path}?{text.format(last=first.get('pages') or 1, middle=middle)}"
            api.send("GET", url)
            steve.stall()
            cpus, walls = [], []
            for _ in range(_ROUNDS):
                number = chance.randrange(count)
                cluster.send("PATCH", _path(number), _machine(number, chance), "application/merge-patch+json")
                time.sleep(_SETTLED)
                cpu, began = steve.cpu(), time.perf_counter()
                api.send("GET", url)
                walls.append((time.perf_counter() - began) * 1e3)
                cpus.append((steve.cpu() - cpu) * 1e3)
            medians.append(statistics.median(cpus))
            total = first["count"] if "count" in first else first["pagination"]["total"]
            figures = f"{_spread(cpus)} {_spread(walls)} {steve.stall() * 1e3:6.1f}"
            print(f"  {path[:3]} {title:20} {total:6} {figures}", flush=True)
    return max(medians)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):6.1f} {sorted(values)[int(len(values) * 0.99)]:6.1f}"


def _machine(number: int, chance: random.Random) -> bytes:
    tree = msgspec.json.decode(pod(number, 1, chance))
    del tree["metadata"]["resourceVersion"], tree["metadata"]["uid"]
    return msgspec.json.encode({**tree, "apiVersion": f"{_GROUP}/v1", "kind": "Machine"})


def _path(number: int) -> str:
    return f"/apis/{_GROUP}/v1/namespaces/ns-{number % _NAMESPACES}/machines/pod-{number:05}"


_OBJECTS = {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
_TEXT = {"type": "string"}
_SPEC = {"type": "object", "properties": {"nodeName": _TEXT, "containers": _OBJECTS}}
_STATUS = {"type": "object", "properties": {"phase": _TEXT, "podIP": _TEXT, "conditions": _OBJECTS}}
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
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}},
                "additionalPrinterColumns": [
                    {"name": name, "type": "string", "jsonPath": path} for name, path in _COLUMNS.items()
                ],
            }
        ],
    },
}
