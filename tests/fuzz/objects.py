"""Requests with objects of every built-in kind, drawn from the published schemas: mostly of the right form, often odd."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

from envtest.data.resources import ServedResourceRow, rows
from envtest.data.schemas import types
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject
from tests.fuzz.requests import exchange

NAMES = ("a", "b", "c")
WORDS = (
    *NAMES, "", "v1", "Pod", "apps", "example.com/x", "10.0.0.1", "fd00::1", "10.0.0.0/16", "TCP", "Always", "ClusterIP",
    "ReadWriteOnce", "10%", "80", "1Gi", "500m", "0.5", "-1", "Exists", "In", "NoSchedule", "kubernetes.io/hostname",
    "metadata.name", "object.spec.a > 1", "true", "/a", "https://x.example", "default", "*", "get", "CREATE",
    "Namespaced", "None", "Fail", "Deny", "2020-01-01T00:00:00Z", "* * * * *", "UTC", "x" * 64, "\u00dc", "Localhost",
    "linux", "RuntimeDefault", "Immediate", "Delete", "Resource", "Utilization", "cpu", "requests.cpu", "count/pods",
    "Terminating", "Container", "AQ==",
)  # fmt: skip
NUMBERS = (0, 1, 2, 5, 80, 30000, 65536, -1, 2**31 - 1, 2**40, 1.5, 1e300)
ODD: tuple[Any, ...] = (None, "", 0, -1, True, [], {}, [None], [{}], {"a": None}, {"": ""}, 2**63, 1e300, "1e300", [[]])
PATCHES = ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml", "json-patch+json")
CONNECTED = frozenset({"exec", "attach", "portforward", "proxy", "log"})
"""Subresources that take no objects."""


@cache
def targets() -> list[tuple[ServedResourceRow, str]]:
    """What can be written, with the name of its type."""
    result = []
    for row in rows():
        info = row.info
        group, _, version = info.kind_api_version.rpartition("/")
        name = types().name_of(group, version, info.kind)
        if name is not None and set(row.verbs) & {"create", "update", "patch"} and info.subresource not in CONNECTED:
            result.append((row, name))
    return result


def drawn(rng: random.Random) -> bytes:
    """One request, as JSON."""
    row, name = rng.choice(targets())
    info = row.info
    group = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
    resources = f"{group}{'/namespaces/default' if info.namespaced else ''}/{info.resource}"
    one = "/".join(filter(None, (resources, rng.choice(NAMES), info.subresource)))
    verb = rng.choice([v for v in row.verbs if v in ("create", "update", "patch", "delete", "get", "list")])
    body = {"apiVersion": info.kind_api_version, "kind": info.kind, **_object(name, rng, rng.choice((3, 5, 7)))}
    body["metadata"] = {"name": rng.choice(NAMES), **(_metadata(rng) if rng.random() < 0.3 else {})}
    match verb:
        case "create":
            tree = {"method": "POST", "path": one if info.subresource else resources, "body": body}
        case "update":
            tree = {"method": "PUT", "path": one, "body": body}
        case "patch":
            kind = rng.choice(PATCHES)
            patch = [{"op": "add", "path": "/spec", "value": body.get("spec")}] if kind.startswith("json") else body
            tree = {"method": "PATCH", "path": one, "type": f"application/{kind}", "body": patch}
        case "delete":
            tree = {"method": "DELETE", "path": one}
        case _:
            tree = {"method": "GET", "path": one if verb == "get" else resources}
    if rng.random() < 0.5 and "body" in tree:
        tree["body"] = odder(tree["body"], rng)
    return json.dumps(tree).encode()


def odder(value: Any, rng: random.Random) -> Any:
    """The same with one value replaced, left out or doubled somewhere."""
    places = list(_places(value))
    if not places:
        return value
    holder, key = rng.choice(places)
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(deepcopy(holder[key]))
        case 1:
            holder[rng.choice(WORDS)] = deepcopy(holder[key])
        case _:
            holder[key] = deepcopy(rng.choice(ODD))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(part, dict | list):
            yield from _places(part)


def _metadata(rng: random.Random) -> JsonObject:
    return _object("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", rng, 3)


def _object(name: str, rng: random.Random, depth: int) -> JsonObject:
    properties = (types().schema(name) or {}).get("properties", {})
    chance = 0.5 if depth > 2 else 0.25 if depth > 0 else 0.0
    left_out = ("apiVersion", "kind", "metadata")
    inner = {key: schema for key, schema in properties.items() if key not in left_out}
    return {key: _value(schema, rng, depth - 1) for key, schema in inner.items() if rng.random() < chance}


def _value(schema: JsonObject, rng: random.Random, depth: int) -> Any:
    if rng.random() < 0.02:
        return deepcopy(rng.choice(ODD))
    ref = schema["allOf"][0]["$ref"] if "allOf" in schema else schema.get("$ref", "")
    if ref:
        name = ref.rpartition("/")[2]
        has_properties = "properties" in (types().schema(name) or {})
        return _object(name, rng, depth) if has_properties else rng.choice((*WORDS, *NUMBERS, {"a": 1}))
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "string":
            return rng.choice(WORDS)
        case "integer" | "number":
            return rng.choice(NUMBERS)
        case "boolean":
            return rng.random() < 0.6
        case "array":
            return [
                _value(schema["items"], rng, depth - 1) for _ in range(rng.choice((0, 1, 1, 2)) if depth > 0 else 0)
            ]
        case "object" if "additionalProperties" in schema:
            many = rng.choice((0, 1, 1, 2)) if depth > 0 else 0
            return {rng.choice(WORDS): _value(schema["additionalProperties"], rng, depth - 1) for _ in range(many)}
    return {"a": 1}


async def answer(env: Environment, data: bytes) -> int:
    """The status of the answer to a request that was drawn."""
    request = json.loads(data)
    query = "fieldManager=fuzz&force=true" if "apply" in request.get("type", "") else ""
    headers = [(b"content-type", request.get("type", "application/json").encode())]
    body = json.dumps(request["body"]).encode() if "body" in request else b""
    scope = {"type": "http", "method": request["method"], "path": request["path"], "query_string": query.encode()}
    return await exchange(env, {**scope, "headers": headers}, body)
