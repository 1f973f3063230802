"""Objects of built-in kinds that decode, and otherwise hold whatever comes to mind."""

from __future__ import annotations

import base64
import random
from functools import cache
from typing import Any

from envtest.data.resources import ServedResourceRow, rows
from envtest.data.schemas import types
from envtest.groups.common.model import TypedModel, Typing
from envtest.groups.registry import Catalogue, catalogue
from opsdk.structured_merge.value import JsonObject

WORDS = (
    "", "a", "b", "c", "web", "Bad_Name", "a.b", "-", "x" * 70, "y" * 300, "é", "\x00", "..", "a/b", "a/b/c", "/abs",
    "10.0.0.1", "::1", "fe80::1", "10.0.0.0/8", "2001:db8::/32", "300.1.2.3", "100%", "50%", "-1%", "many", "None",
    "1", "0", "-1", "99999999999999999999", "*/5 * * * *", "@daily", "nonsense * *", "UTC", "Mars/Olympus", "$(X)",
    "example.com/x", "kubernetes.io/x", "requests.cpu", "cpu", "memory", "storage", "pods", "hugepages-2Mi", "*",
    "metadata.name", "metadata.labels['a']", "status.podIP", "limits.cpu", "https://example.com", "http://a b", "self",
    "object.x == 1", "system:masters", "system-node-critical", "v1", "apps/v1", "kubernetes.io/tls", "{}", "[", "null",
)  # fmt: skip
ENUMS = (
    "Always", "Never", "OnFailure", "IfNotPresent", "TCP", "UDP", "SCTP", "ClusterIP", "NodePort", "LoadBalancer",
    "ExternalName", "Cluster", "Local", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "NoSchedule",
    "NoExecute", "ReadWriteOnce", "ReadWriteOncePod", "Block", "Filesystem", "Retain", "Delete", "Recycle", "Immediate",
    "RollingUpdate", "Recreate", "OnDelete", "Parallel", "OrderedReady", "Indexed", "NonIndexed", "Allow", "Forbid",
    "Replace", "Resource", "Pods", "Object", "External", "Utilization", "AverageValue", "Value", "Container", "Pod",
    "PersistentVolumeClaim", "Exact", "Prefix", "ImplementationSpecific", "Ingress", "Egress", "Fail", "Ignore",
    "Equivalent", "User", "Group", "ServiceAccount", "Limited", "Exempt", "Queue", "Reject", "IPv4", "IPv6",
    "SingleStack", "PreferDualStack", "RequireDualStack", "All", "ExactCount", "Namespace", "True", "False", "Unknown",
)  # fmt: skip
AMOUNTS = ("0", "1", "-1", "500m", "1Gi", "0.5", "1e3", "1.5Gi", "100n")
NUMBERS = (0, 1, 2, -1, 80, 443, 30000, 65535, 65536, 100000, 2**31 - 1, -(2**31))


class Maker:
    """Makes values of schemas."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def value(self, schema: JsonObject, depth: int = 0) -> Any:
        """Something of this type."""
        if "allOf" in schema:
            return self.named(schema["allOf"][0]["$ref"].rpartition("/")[2], depth)
        if "enum" in schema and self.rng.random() < 0.8:
            return self.rng.choice(schema["enum"])
        match schema.get("type"):
            case "object" if "additionalProperties" in schema:
                count = self.rng.choice((0, 1, 1, 2))
                return {self.word(): self.value(schema["additionalProperties"], depth + 1) for _ in range(count)}
            case "object":
                return {}
            case "array":
                count = self.rng.choice((0, 1, 1, 2, 3)) if depth < 9 else 0
                return [self.value(schema["items"], depth + 1) for _ in range(count)]
            case "integer":
                return self.rng.choice(NUMBERS)
            case "number":
                return self.rng.choice((0.5, -1.0, 3.0))
            case "boolean":
                return self.rng.random() < 0.5
            case "string":
                return self.string(schema.get("format", ""))
            case _:
                return self.rng.choice(({}, {"a": 1}, {"a": [None]}))

    def string(self, form: str) -> str:
        """A string of a format."""
        if form == "byte":
            return base64.b64encode(self.rng.choice((b"", b"abc", b"\xff", b"-----BEGIN X-----"))).decode()
        if form == "date-time":
            return "2026-01-02T03:04:05Z"
        return self.word()

    def word(self) -> str:
        """Any string."""
        return self.rng.choice(WORDS if self.rng.random() < 0.6 else ENUMS)

    def named(self, name: str, depth: int) -> Any:
        """Something of a named type."""
        match name.rpartition(".")[2]:
            case "Time":
                return "2026-01-02T03:04:05Z"
            case "MicroTime":
                return "2026-01-02T03:04:05.000006Z"
            case "Quantity":
                return self.rng.choice(AMOUNTS)
            case "IntOrString":
                return self.rng.choice((*NUMBERS, *WORDS))
            case short if short.startswith("JSON") or short in ("RawExtension", "FieldsV1"):
                return self.rng.choice(({}, {"type": "object"}))
        schema = types().schema(name) or {}
        # Deep down there is less of everything, or there would be no end.
        share = (0.7, 0.7, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2)[depth] if depth < 8 else 0.0
        tree: JsonObject = {}
        for key, inner in (schema.get("properties") or {}).items():
            if key in (schema.get("required") or ()) and depth < 12:
                if self.rng.random() < 0.9:
                    tree[key] = self.value(inner, depth + 1)
            elif self.rng.random() < share:
                tree[key] = self.value(inner, depth + 1)
        return tree


@cache
def typing() -> Typing:
    """The tables, read once."""
    return Typing(types())


@cache
def known() -> Catalogue:
    """Strategies and defaults."""
    return catalogue()


def kinds() -> list[ServedResourceRow]:
    """Every kind that is stored."""
    stored = (row for row in rows() if not row.info.subresource and {"create", "update"} <= set(row.verbs))
    # Autoscalers are kept in their second version; the first one is made from that.
    return [row for row in stored if (row.info.group, row.info.version) != ("autoscaling", "v1")]


def model_of(row: ServedResourceRow) -> TypedModel:
    """How its objects are read."""
    name = types().name_of(row.info.group, row.info.version, row.info.kind)
    assert name is not None
    return TypedModel(typing(), name, defaults=known().defaults_of(row))


def make(row: ServedResourceRow, seed: int) -> JsonObject:
    """An object as a client might send it, read and with its defaults."""
    rng = random.Random(seed)
    model = model_of(row)
    tree: JsonObject = Maker(rng).named(model.name, 0)
    meta = {"name": rng.choice(("a", "web", "Bad_Name", "10.0.0.1", "a.b")), "uid": "u", "creationTimestamp": None}
    for key in ("labels", "annotations"):
        if rng.random() < 0.5:
            meta[key] = {rng.choice(WORDS): rng.choice(WORDS)}
    if row.info.namespaced:
        meta["namespace"] = "default"
    tree.update(apiVersion=row.info.api_version, kind=row.info.kind, metadata=meta)
    return model.default(model.decode(tree).obj)
