"""Objects of a type with every field set."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from envtest.data.schemas import types
from opsdk.apiserver.resources import group_version
from opsdk.structured_merge.value import JsonObject

_SPECIAL: dict[str, Any] = {
    "Time": "2026-01-02T03:04:05Z",
    "MicroTime": "2026-01-02T03:04:05.000006Z",
    "Quantity": "1Gi",
    "IntOrString": "http",
    "RawExtension": {"a": [1, "b"]},
    "FieldsV1": {"f:spec": {}},
    "JSON": {"a": 1},
    "JSONSchemaPropsOrBool": True,
    "JSONSchemaPropsOrArray": {"type": "string"},
    "JSONSchemaPropsOrStringArray": ["a"],
}
_WRITE_ONLY = frozenset({"stringData"})
_HELD_BY_SERVER = frozenset({"apiVersion", "kind", "metadata"})
NOTHING: Mapping[str, Collection[str]] = MappingProxyType({})
WITHOUT_NUMBER = {
    "io.k8s.api.core.v1.NodeSystemInfo": {"runningInUserNamespace"},
    "io.k8s.api.resource.v1.DeviceCounterConsumption": {"compatibilityGroups"},
    "io.k8s.api.resource.v1.DeviceSubRequest": {"derivedAttributes"},
    "io.k8s.api.resource.v1.ExactDeviceRequest": {"derivedAttributes"},
}
"""Fields of 1.37 whose protobuf number no source has."""


class WholeObjects:
    """Makes objects of a version of Kubernetes.

    Args:
        schemas: of the types by name, or the version that has them.
        without: fields to leave out, by type.
        in_json: set the type of inner objects, which only JSON has.

    Attributes:
        fields: how many different fields of types were set so far.
    """

    def __init__(
        self,
        schemas: Mapping[str, JsonObject] | str,
        *,
        without: Mapping[str, Collection[str]] = NOTHING,
        in_json: bool = True,
    ) -> None:
        self._types = types(schemas) if isinstance(schemas, str) else schemas
        self._left_out = without
        self._in_json = in_json
        self.fields: set[tuple[str, str]] = set()

    def of(self, name: str) -> JsonObject:
        """Return an object of a type, without what the server sets."""
        tree: JsonObject = self._named(name, ())
        return {key: value for key, value in tree.items() if key not in _HELD_BY_SERVER}

    def _named(self, name: str, above: tuple[str, ...]) -> Any:
        short = name.rpartition(".")[2]
        if short in _SPECIAL:
            return _SPECIAL[short]
        left_out = {*self._left_out.get(name, ()), *(_WRITE_ONLY if short == "Secret" else ())}
        tree: JsonObject = {}
        whole = self._types.get(name) or {}
        inner_type = self._type_of(whole) if above else {}
        tree |= inner_type if self._in_json else {}
        left_out |= inner_type.keys()
        for key, schema in whole.get("properties", {}).items():
            if key in left_out or (name in above and short in str(schema)):  # one level of a recursive type
                continue
            if name in above and name != above[-1]:
                continue
            self.fields.add((name, key))
            tree[key] = self._value(schema, (*above, name))
        return tree

    @staticmethod
    def _type_of(schema: JsonObject) -> JsonObject:
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            return {"apiVersion": group_version(kind["group"], kind["version"]), "kind": kind["kind"]}
        return {}

    def _value(self, schema: JsonObject, above: tuple[str, ...]) -> Any:
        reference = schema["allOf"][0]["$ref"] if "allOf" in schema else schema.get("$ref", "")
        if reference:
            return self._named(reference.rpartition("/")[2], above)
        if "enum" in schema:
            return schema["enum"][0]
        match schema.get("type"):
            case "array":
                return [self._value(schema["items"], above)]
            case "object" if "additionalProperties" in schema:
                return {"a": self._value(schema["additionalProperties"], above)}
            case "object":
                return {"a": 1}
            case "integer":
                return 7
            case "number":
                return 1.5
            case "boolean":
                return True
            case "string":
                return _text(schema.get("format", ""))
            case _:
                return {"a": 1}


def _text(form: str) -> str:
    return {"byte": "YWJj", "date-time": "2026-01-02T03:04:05Z"}.get(form, "text")
