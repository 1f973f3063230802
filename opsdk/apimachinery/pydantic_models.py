"""pydantic models as parts of kinds. pydantic itself is not imported: the methods of its classes suffice.

Upstream: none.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from opsdk.apimachinery.crd_markers import INT_OR_STRING, LIST_TYPE, PRESERVE
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

# Keywords that a structural schema supports with the same meaning.
_BOUNDS = ("maximum", "maxItems", "maxLength", "maxProperties", "minimum", "minItems", "minLength", "minProperties")
_SAME = (*_BOUNDS, "default", "enum", "example", "format", "multipleOf", "nullable", "pattern", "required", "type")
# Keywords that the server does not use.
_IGNORED = frozenset({"$defs", "title", "deprecated", "readOnly", "writeOnly", "contentMediaType", "contentEncoding"})
_NULL = {"type": "null"}
_ADVICE = "use a field of one type, or describe it with json_schema_extra"


def is_pydantic(cls: type) -> bool:
    """Whether `cls` is a pydantic model (version 2)."""
    return all(hasattr(cls, name) for name in ("model_validate", "model_dump", "model_json_schema"))


def encode_pydantic(model: Any) -> JsonObject:
    """Return a model as JSON. A field that equals its default is not sent, and sets are sorted."""
    tree: JsonObject = model.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    cls: Any = type(model)
    if _has_sets(cls):
        _sort_sets(model.model_dump(by_alias=True, exclude_defaults=True), tree)
    return tree


@lru_cache(maxsize=1024)
def _has_sets(cls: Any) -> bool:
    schema = repr(cls.__pydantic_core_schema__)
    return "'type': 'set'" in schema or "'type': 'frozenset'" in schema


def _sort_sets(dumped: Any, tree: JsonValue) -> JsonValue:
    """Sort the values in `tree` that are sets in `dumped`, and return it. The order of sets is not deterministic."""
    if isinstance(dumped, set | frozenset) and isinstance(tree, list):
        return sorted(tree, key=repr)
    if isinstance(dumped, dict) and isinstance(tree, dict) and len(dumped) == len(tree):
        for part, name in zip(dumped.values(), tree, strict=True):
            tree[name] = _sort_sets(part, tree[name])
    elif isinstance(dumped, list | tuple) and isinstance(tree, list):
        tree[:] = map(_sort_sets, dumped, tree)
    return tree


def schema_of_pydantic(cls: Any, path: str) -> JsonObject:
    """Return the structural schema of a model.

    Args:
        cls: the model.
        path: of the field, for errors.

    Raises:
        UsageError: a part has no structural schema; the message names its path and a solution.
    """
    document = cls.model_json_schema(by_alias=True, mode="validation")
    return _Converter(document.get("$defs", {})).convert(document, path)


class _Converter:
    """Converts JSON Schema (2020-12) as pydantic writes it."""

    def __init__(self, definitions: Mapping[str, JsonObject]) -> None:
        self._definitions = definitions
        self._inside: list[str] = []

    def convert(self, source: JsonObject, path: str) -> JsonObject:
        """Return the structural schema of `source`."""
        if "$ref" in source:
            return self._referenced(source, path)
        if "allOf" in source and len(source["allOf"]) == 1:
            rest = {name: value for name, value in source.items() if name != "allOf"}
            return self.convert({**source["allOf"][0], **rest}, path)
        if "anyOf" in source:
            return self._union(source, path)
        schema: JsonObject = {name: source[name] for name in _SAME if name in source}
        schema |= {name: value for name, value in source.items() if name.startswith("x-kubernetes-")}
        for name in source.keys() - schema.keys() - _IGNORED:
            schema |= self._keyword(name, source[name], source, path)
        if schema.get("type") == "integer" and "enum" not in schema:
            schema.setdefault("format", "int64")
        if schema.get("format") == "duration":
            raise UsageError(f"{path}: timedelta has no structural schema: use a str such as 1h30m")
        if not schema.keys() - {"default", "description"}:
            schema[PRESERVE] = True
        if schema.get("default", 0) in (None, [], {}, ""):
            del schema["default"]
        return schema

    def _keyword(self, name: str, value: Any, source: JsonObject, path: str) -> JsonObject:
        """Return the structural form of a JSON schema keyword. Raises `UsageError` if there is none."""
        match name:
            case "description":
                return {"description": " ".join(inspect.cleandoc(value).partition("\n\n")[0].split("\n"))}
            case "properties":
                return {"properties": {key: self.convert(part, f"{path}.{key}") for key, part in value.items()}}
            case "items":
                return {"items": self.convert(value, f"{path}[]")}
            case "additionalProperties" if isinstance(value, dict) and value:
                return {"additionalProperties": self.convert(value, path + "{}")}
            case "additionalProperties":
                return {PRESERVE: True} if value is not False else {}
            case "const":
                return {"enum": [value], "type": _type_of([value], path)}
            case "exclusiveMinimum" | "exclusiveMaximum":
                return {name[len("exclusive") :].lower(): value, name: True}
            case "uniqueItems":
                return {LIST_TYPE: "set"} if value else {}
            case "examples":
                return {"example": value[0]}
        raise UsageError(f"{path}: {name!r} of {source.get('title', 'this field')} has no structural schema: {_ADVICE}")

    def _referenced(self, source: JsonObject, path: str) -> JsonObject:
        name = source["$ref"].removeprefix("#/$defs/")
        if name in self._inside:
            raise UsageError(
                f"{path}: {name} contains itself: recursive types have no structural schema; use dict[str, Any] there"
            )
        self._inside.append(name)
        rest = {key: value for key, value in source.items() if key != "$ref"}
        schema = self.convert({**self._definitions[name], **rest}, path)
        self._inside.pop()
        return schema

    def _union(self, source: JsonObject, path: str) -> JsonObject:
        """Return the schema of ``X | None`` or ``int | str``. Raises `UsageError` for others."""
        parts = [part for part in source["anyOf"] if part != _NULL]
        rest = {key: value for key, value in source.items() if key != "anyOf"}
        if len(parts) == 1:
            schema = self.convert({**parts[0], **rest}, path)
        elif {part.get("type") for part in parts} == {"integer", "string"}:
            plain: Sequence[JsonValue] = [{"type": "integer"}, {"type": "string"}]
            schema = {**self.convert({**rest, "type": "string"}, path), "anyOf": plain, INT_OR_STRING: True}
            del schema["type"]
        else:
            text = f"a union of {len(parts)} types has no structural schema"
            raise UsageError(f"{path}: {text}: only `X | None` and `int | str` do")
        # A field that is None by default is not sent, so null means absent.
        if _NULL in source["anyOf"] and source.get("default", 0) is not None:
            schema |= {"nullable": True, **({"enum": [*schema["enum"], None]} if "enum" in schema else {})}
        return schema


def _type_of(values: Sequence[Any], path: str) -> str:
    for cls, name in ((str, "string"), (bool, "boolean"), (int, "integer")):
        if all(type(value) is cls for value in values):
            return name
    raise UsageError(f"{path}: the values {list(values)} have no structural schema: use strings or integers only")
