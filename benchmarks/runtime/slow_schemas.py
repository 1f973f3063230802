"""Definitions and policies that take long to check: how late ``/healthz`` is in the meantime."""

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
_RULES: Final = 3_000
_PATTERNS: Final = 30_000
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
    requests = (
        (f"definition of {_RULES:,} rules", DEFINITIONS, with_rules("Ruled")),
        ("its first object", "/apis/example.com/v1/namespaces/default/ruleds", ruled),
        (f"definition of {_PATTERNS:,} patterns", DEFINITIONS, with_patterns("Patterned")),
        ("policy of nested loops", MAPS, slow_map()),
    )
    rows: list[SlowRow] = []
    for name, path, tree in requests:
        async with HealthProbe(server.port) as probe:
            start = time.monotonic()
            response = await send(server.port, post(path, tree, server.token))
            seconds = time.monotonic() - start
            await asyncio.sleep(_AFTER_SECONDS)
        rows.append(SlowRow(name, response[9:12].decode(), seconds, probe.latest))
    return rows
