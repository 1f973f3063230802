"""A small workload kind with every list and map type, and the schema of a custom resource."""

from __future__ import annotations

from typing import Any

from opsdk.structured_merge.schema import OBJECT_META_SCHEMA, SchemaSet
from opsdk.structured_merge.value import JsonObject


def ref(name: str, **site: Any) -> JsonObject:
    """A reference as the server publishes it, with what the use site adds."""
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}], **site}


def merged(name: str, key: str, *, keys: list[str] | None = None, strategy: str = "merge") -> JsonObject:
    """A keyed list of `name`."""
    return {
        "type": "array",
        "items": {"$ref": f"#/components/schemas/{name}"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys or [key],
        "x-kubernetes-patch-strategy": strategy,
        "x-kubernetes-patch-merge-key": key,
    }


STRING = {"type": "string"}
STRINGS = {"type": "array", "items": STRING, "x-kubernetes-list-type": "atomic"}
LABELS = {"type": "object", "additionalProperties": STRING}

SCHEMAS: dict[str, JsonObject] = {
    "ObjectMeta": dict(OBJECT_META_SCHEMA),
    "Work": {
        "type": "object",
        "properties": {
            "apiVersion": STRING,
            "kind": STRING,
            "metadata": ref("ObjectMeta", default={}),
            "spec": ref("WorkSpec", default={}),
            "status": ref("WorkStatus", default={}),
            "data": LABELS,
        },
    },
    "WorkSpec": {
        "type": "object",
        "required": ["containers", "selector"],
        "properties": {
            "replicas": {"type": "integer"},
            "paused": {"type": "boolean"},
            "selector": ref("Selector"),
            "nodeSelector": {**LABELS, "x-kubernetes-map-type": "atomic"},
            "containers": merged("Container", "name"),
            "volumes": merged("Volume", "name", strategy="merge,retainKeys"),
            "strategy": ref("Strategy", default={}, **{"x-kubernetes-patch-strategy": "retainKeys"}),
            "replaced": {**LABELS, "x-kubernetes-patch-strategy": "replace"},
            "tolerations": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
            "anything": {},
            "raw": {"type": "object"},
            "nested": {"$ref": "#/components/schemas/WorkSpec"},
        },
    },
    "WorkStatus": {"type": "object", "properties": {"phase": STRING, "observed": {"type": "integer"}}},
    "Selector": {"type": "object", "properties": {"matchLabels": LABELS}, "x-kubernetes-map-type": "atomic"},
    "Strategy": {"type": "object", "properties": {"type": STRING, "rolling": {"type": "object", "properties": {}}}},
    "Container": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {**STRING, "default": ""},
            "image": STRING,
            "args": STRINGS,
            "env": merged("Env", "name"),
            "ports": merged("Port", "containerPort", keys=["containerPort", "protocol"]),
        },
    },
    "Env": {"type": "object", "properties": {"name": {**STRING, "default": ""}, "value": STRING}},
    "Port": {
        "type": "object",
        "required": ["containerPort"],
        "properties": {
            "containerPort": {"type": "integer", "default": 0},
            "protocol": {**STRING, "default": "TCP"},
            "name": STRING,
        },
    },
    "Volume": {
        "type": "object",
        "properties": {"name": {**STRING, "default": ""}, "emptyDir": {"type": "object"}, "configMap": LABELS},
    },
}

SHAPES = SchemaSet(SCHEMAS)
WORK = SHAPES.of("Work")

WIDGET_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "plain": {"type": "array", "items": STRING},
                "tags": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
                "free": LABELS,
                "solid": {
                    "type": "object",
                    "properties": {"a": STRING, "b": STRING},
                    "x-kubernetes-map-type": "atomic",
                },
                "ports": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["port"],
                        "properties": {
                            "port": {"type": "integer"},
                            "protocol": {"type": "string", "default": "TCP"},
                            "name": STRING,
                        },
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                },
                "any": {"x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}
