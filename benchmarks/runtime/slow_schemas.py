"""Definitions, policies and tables that take long: how late ``/healthz`` is in the meantime."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Final

from benchmarks.runtime.attacked_server import DEFINITIONS, MAPS, AttackedServer, definition
from benchmarks.runtime.health import HealthProbe
from benchmarks.runtime.unread import Send

_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_SHOWN: Final = "/apis/example.com/v1/namespaces/default/showns"
_RULES: Final = 3_000
_PATTERNS: Final = 30_000
_COLUMNS: Final = 200
_ROWS: Final = 2
_AFTER_SECONDS: Final = 3.0
"""Seconds for what a request starts: a new definition is served, and followed."""


def post(path: str, tree: object, token: str) -> bytes:
    """Return the bytes of a POST request."""
    body = json.dumps(tree).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def with_rules(kind: str) -> object:
    """Return a definition with many different rules."""
    rules = [{"rule": f"self.a != 'forbidden-{number}'", "message": f"not {number}"} for number in range(_RULES)]
    properties = {"a": {"type": "string", "maxLength": 10}}
    return definition(kind, {"type": "object", "properties": properties, "x-kubernetes-validations": rules})


def with_patterns(kind: str) -> object:
    """Return a definition with many different patterns."""
    fields = {f"p{n}": {"type": "string", "pattern": f"^a{{0,5}}[b-d]*-{n}$"} for n in range(_PATTERNS)}
    return definition(kind, {"type": "object", "properties": fields})


def nested_policy() -> list[tuple[str, object]]:
    """Return a policy that compares each value of a ConfigMap with each other, and its binding."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    match = {"resourceRules": [rule], "namespaceSelector": {}, "objectSelector": {"matchLabels": {"slow": "true"}}}
    expression = "object.data.all(a, object.data.all(b, object.data.all(c, a + b != c + 'x')))"
    spec = {"failurePolicy": "Fail", "matchConstraints": match, "validations": [{"expression": expression}]}
    binding = {"policyName": "nested", "validationActions": ["Deny"]}
    return [
        (_POLICIES, {"metadata": {"name": "nested"}, "spec": spec}),
        (_BINDINGS, {"metadata": {"name": "nested"}, "spec": binding}),
    ]


def with_columns(kind: str) -> object:
    """Return a definition with many columns whose paths visit each value many times."""
    tree = definition(kind, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    paths = [f"..*..*..*..c{number}" for number in range(_COLUMNS)]
    columns = [{"name": path, "type": "string", "jsonPath": path} for path in paths]
    tree["spec"]["versions"][0]["additionalPrinterColumns"] = columns
    return tree


def get_table(path: str, token: str) -> bytes:
    """Return the bytes of a GET request for a Table."""
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    head = f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nAccept: {accept}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode()


def slow_map() -> object:
    """Return a ConfigMap below 16 KiB that the policy selects."""
    return {
        "metadata": {"generateName": "slow-", "labels": {"slow": "true"}},
        "data": {f"k{number:04}": "v" for number in range(800)},
    }


@dataclass(frozen=True, slots=True)
class SlowRow:
    """One request: its status, its time, and the latest response of ``/healthz``, in seconds."""

    name: str
    status: str
    seconds: float
    latest: float


async def check_slowly(server: AttackedServer, send: Send) -> list[SlowRow]:
    """Play each request, and return a row for each."""
    for path, tree in nested_policy():
        await send(server.port, post(path, tree, server.token))
    await asyncio.sleep(1)
    ruled = {"kind": "Ruled", "apiVersion": "example.com/v1", "metadata": {"generateName": "a"}, "spec": {"a": "b"}}
    await send(server.port, post(DEFINITIONS, with_columns("Shown"), server.token))
    shown = {"kind": "Shown", "apiVersion": "example.com/v1", "metadata": {"generateName": "a"}}
    for _ in range(_ROWS):
        tree = {**shown, "spec": {f"k{number}": {"a": number} for number in range(100)}}
        await send(server.port, post(_SHOWN, tree, server.token))
    requests = (
        (f"definition of {_RULES:,} rules", post(DEFINITIONS, with_rules("Ruled"), server.token)),
        ("its first object", post("/apis/example.com/v1/namespaces/default/ruleds", ruled, server.token)),
        (f"definition of {_PATTERNS:,} patterns", post(DEFINITIONS, with_patterns("Patterned"), server.token)),
        ("policy of nested loops", post(MAPS, slow_map(), server.token)),
        (f"Table of {_COLUMNS} slow columns", get_table(_SHOWN, server.token)),
    )
    rows: list[SlowRow] = []
    for name, request in requests:
        async with HealthProbe(server.port) as probe:
            start = time.monotonic()
            response = await send(server.port, request)
            seconds = time.monotonic() - start
            await asyncio.sleep(_AFTER_SECONDS)
        rows.append(SlowRow(name, response[9:12].decode(), seconds, probe.latest))
    return rows
