"""Typed classes from CustomResourceDefinitions. Pure: definitions in, source files out.

`crd_for` of the classes returns the definitions again: what Python's types cannot say becomes a marker. Differences
remain where a definition of another origin has forms that `crd_for` does not write, such as a default in a required
field.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from opsdk.apimachinery.crd_markers import EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE, RULES
from opsdk.apimachinery.crd_schema import Schemas
from opsdk.apimachinery.meta import Condition
from opsdk.apimachinery.plurals import pluralize
from opsdk.cli.generate.names import camel, pascal, snake
from opsdk.structured_merge.value import JsonObject, JsonValue

Schema = Mapping[str, Any]

_MARKER_MODULE = "opsdk.apimachinery.crd"
_INT_OR_STRING_TYPES = [{"type": "integer"}, {"type": "string"}]
# format of a string -> (module, class)
_STRINGS = {
    "byte": ("", "bytes"),
    "date": ("datetime", "date"),
    "date-time": ("opsdk.apimachinery.time", "Time"),
    "duration": ("opsdk.apimachinery.duration", "Duration"),
    "uuid": ("uuid", "UUID"),
}
_BOUNDS = {
    "string": {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
    "object": {"minProperties": "min_length", "maxProperties": "max_length"},
}
# Attributes with these names would shadow names that annotations and other attributes use.
_RESERVED_ATTRIBUTES = frozenset(
    [
        "always_sent",
        "date",
        "embedded_resource",
        "json_schema",
        "list_type",
        "map_type",
        "msgspec",
        "nullable",
        "preserve_unknown_fields",
        "rules",
        "validations",
    ]
)
_KIND_VARIABLES = frozenset(
    [
        "api_version",
        "categories",
        "deprecated",
        "deprecation_warning",
        "gvk",
        "kind",
        "list_kind",
        "metadata",
        "namespaced",
        "plural",
        "printer_columns",
        "scale",
        "selectable_fields",
        "served",
        "short_names",
        "singular",
        "status_subresource",
        "storage",
    ]
)
_BUILTINS = frozenset(["ClassVar", "bool", "bytes", "date", "dict", "float", "int", "list", "msgspec", "str"])
"""Names that cannot have another one in a module. msgspec finds ClassVar by its name."""
_SCALAR_ITEMS = re.compile(r"(list\[|dict\[str, )(Annotated\[)?(str|int|float|bool)\b")
_IMPORTED = frozenset(
    [
        *("Annotated", "Any", "ClassVar", "Condition", "Duration", "Enum", "GroupVersionKind", "IntOrString", "Model"),
        *("JsonObject", "Object", "ObjectMeta", "PrinterColumn", "Quantity", "Rule", "Scale", "Time", "TypedObject"),
        "UUID",
    ]
)
"""Names that a module may import."""
_CONDITION = {"type", "status", "reason", "message", "lastTransitionTime"}


@dataclass
class Annotation:
    """A type in source form, and the keywords that `crd_for` derives from it.

    Attributes:
        text: the type, such as ``list[str]``.
        implied: the schema keywords that `crd_for` derives from the type alone.
        bounds: arguments of ``msgspec.Meta``.
        described: whether a docstring of the class holds the description.
    """

    text: str
    implied: JsonObject
    bounds: dict[str, JsonValue] = field(default_factory=dict)
    described: bool = False


class ModelModule:
    """The source of the classes of one group and version.

    Args:
        group: the API group.
        version: the version, such as ``v1``.
        kinds: all kinds of the module. An import of the same name is renamed, and so is a class below a kind.
        source: the origin of the definitions, for the file header.
    """

    def __init__(self, group: str, version: str, *, kinds: Collection[str], source: str) -> None:
        self._group = group
        self._version = version
        self._kinds = frozenset(map(_class_name, kinds))
        self._source = source
        self._imports: dict[str, set[str]] = {}
        self._classes: dict[str, str] = {}

    def add(self, spec: JsonObject, version: JsonObject) -> None:
        """Add one version of a definition's `spec`."""
        schema = without_nulls(version["schema"]["openAPIV3Schema"])
        kind = _class_name(spec["names"]["kind"])
        declared = schema.get("properties") or {}
        properties = {k: v for k, v in declared.items() if k not in ("apiVersion", "kind", "metadata")}
        self._classes.setdefault(kind, "")
        base, has_fields = self._base(kind, schema, properties)
        variable = self._add_import("typing", "ClassVar")
        gvk = self._add_import("opsdk.apimachinery.gvk", "GroupVersionKind")
        lines = [
            f"class {kind}({base}, dict=True, kw_only=True):",
            *_docstring(schema.get("description", "")),
            f"    gvk: {variable}[{gvk}] = {gvk}({self._group!r}, {self._version!r}, {spec['names']['kind']!r})",
            *self._variables(spec, version, has_status="status" in properties),
            *self._rules(schema),
        ]
        if has_fields:
            lines += ["", *self._fields(kind, {**schema, "properties": properties}, taken=_KIND_VARIABLES)]
        self._classes.pop(kind)  # a kind follows the classes that it uses
        self._classes[kind] = "\n".join(lines)

    def render(self) -> str:
        """Return the source text."""
        head = f'"""Typed kinds of ``{self._group}/{self._version}``.\n\nGenerated by ``opsdk generate models`` from'
        parts = [f'{head} {self._source}; do not edit.\n"""\n', "from __future__ import annotations\n"]
        lines = {m: f"from {m} import {', '.join(sorted(names))}" for m, names in self._imports.items() if names}
        parts.append("".join(f"{lines.pop(m)}\n" for m in ("datetime", "enum", "typing", "uuid") if m in lines))
        if "msgspec" in self._imports:
            parts.append("import msgspec\n")
        return "\n".join([*parts, *sorted(lines.values())]) + "\n\n\n" + "\n\n\n".join(self._classes.values()) + "\n"

    # -------------------------------------------------------------- kinds
    def _base(self, kind: str, schema: Schema, properties: Schema) -> tuple[str, bool]:
        """Return the base class: `Object` where the kind has its form, else `TypedObject` and True for its fields."""
        before = dict(self._classes)
        is_object = all(part.get("type") == "object" and part.get("properties") for part in properties.values())
        if set(properties) in ({"spec"}, {"spec", "status"}) and schema.get("required") == ["spec"] and is_object:
            types = [self._annotation(properties[name], (kind, name)) for name in properties]
            plain = all(
                t.described == ("description" in p) and not self._markers(p, t)
                for t, p in zip(types, properties.values(), strict=True)
            )
            if plain:
                texts = [t.text for t in types]
                name = self._add_import("opsdk.apimachinery.object", "Object")
                return f"{name}[{', '.join([*texts, 'None'][:2])}]", False
            self._classes = before
        return self._add_import("opsdk.apimachinery.object", "TypedObject"), True

    def _variables(self, spec: JsonObject, version: JsonObject, *, has_status: bool) -> Iterator[str]:
        """Iterate over the class variables that differ from those of `Object`."""
        names = spec["names"]
        lower = names["kind"].lower()
        subresources = version.get("subresources") or {}
        columns = [self._call("PrinterColumn", column) for column in version.get("additionalPrinterColumns") or ()]
        fields = tuple(f["jsonPath"] for f in version.get("selectableFields") or ())
        values = {
            "plural": (names["plural"], pluralize(lower)),
            "singular": (names.get("singular", lower), lower),
            "list_kind": (names.get("listKind", f"{names['kind']}List"), f"{names['kind']}List"),
            "short_names": (tuple(names.get("shortNames") or ()), ()),
            "categories": (tuple(names.get("categories") or ()), ()),
            "namespaced": (spec["scope"] == "Namespaced", True),
            "storage": (version.get("storage", False) and version is not spec["versions"][0], False),
            "served": (version.get("served", True), True),
            "deprecated": (version.get("deprecated", False), False),
            "deprecation_warning": (version.get("deprecationWarning", ""), ""),
            "selectable_fields": (fields, ()),
            "status_subresource": ("status" in subresources, has_status),
        }
        yield from (f"    {name} = {value!r}" for name, (value, usual) in values.items() if value != usual)
        if "scale" in subresources:
            yield f"    scale = {self._call('Scale', subresources['scale'])}"
        if columns:
            yield f"    printer_columns = ({', '.join(columns)},)"

    def _call(self, cls: str, values: Mapping[str, Any]) -> str:
        arguments = ", ".join(f"{snake(key)}={value!r}" for key, value in values.items())
        return f"{self._add_import(_MARKER_MODULE, cls)}({arguments})"

    # -------------------------------------------------------------- classes
    def _class(self, schema: Schema, path: tuple[str, ...]) -> tuple[str, bool]:
        """Add a class for an object with properties; returns its name and whether it holds the description."""
        name = self._free_name(path)
        self._classes[name] = ""
        base = self._add_import("opsdk.apimachinery.model", "Model")
        text = _docstring(schema.get("description", ""))
        fields = list(self._fields(name, schema, taken=frozenset()))
        body = [*text, *self._rules(schema), *fields]
        self._classes.pop(name)  # a class follows the classes that it uses
        self._classes[name] = "\n".join([f"class {name}({base}, kw_only=True):", *(body or ["    pass"])])
        return name, bool(text)

    def _rules(self, schema: Schema) -> Sequence[str]:
        calls = [self._call("Rule", rule) for rule in schema.get(RULES, ())]
        return [f"    rules = ({', '.join(calls)},)"] if calls else []

    def _enum(self, values: Sequence[Any], path: tuple[str, ...]) -> str:
        """Add an Enum class for these values, and return its name."""
        name = self._free_name(path)
        members: dict[str, Any] = {}
        for value in values:
            member = re.sub(r"\W", "_", snake(str(value))).upper() if str(value) else "EMPTY"
            member = f"VALUE_{str(value).replace('-', 'MINUS_')}" if isinstance(value, int) else member
            while member in members or member in ("NAME", "VALUE"):
                member += "_"
            members[member] = value
        base = self._add_import("enum", "Enum")
        lines = [f"    {member} = {value!r}" for member, value in members.items()]
        self._classes[name] = "\n".join([f"class {name}({base}):", *lines])
        return name

    def _free_name(self, path: tuple[str, ...]) -> str:
        """Return a name for a class below a kind."""
        name = pascal(*path)
        while name in self._classes or name in self._kinds or name in _IMPORTED:
            name += "_"
        return name

    def _fields(self, cls: str, schema: Schema, *, taken: frozenset[str]) -> Iterator[str]:
        required = set(schema.get("required", ()))
        attributes = set(taken | _RESERVED_ATTRIBUTES)
        for wire, part in schema.get("properties", {}).items():
            name = snake(wire)
            while name in attributes:
                name += "_"
            attributes.add(name)
            yield self._field(name, wire, part, path=(cls, wire), required=wire in required)

    def _field(self, name: str, wire: str, part: Schema, *, path: tuple[str, ...], required: bool) -> str:
        """Return the line of a class's field."""
        annotation = self._annotation(part, path)
        arguments = {}
        default: str | None = None
        rest = dict(part)
        if "default" in part:
            default = self._default(part, annotation)
            rest.pop("default")
        elif not required:
            default = "None"
            if annotation.text.startswith(("list[", "dict[", "JsonObject")) and not part.get("nullable"):
                default = f"lambda: {'[]' if annotation.text.startswith('list[') else '{}'}"
        hint = self._hint(rest, annotation, optional=default == "None")
        if camel(name) != wire:
            arguments["name"] = repr(wire)
        if default is not None and default.startswith("lambda: "):
            simple = {"lambda: []": "list", "lambda: {}": "dict"}.get(default, default)
            arguments["default_factory"] = simple
        elif default is not None and arguments:
            arguments["default"] = default
        if arguments:
            self._imports.setdefault("msgspec", set())
            return f"    {name}: {hint} = msgspec.field({', '.join(f'{k}={v}' for k, v in arguments.items())})"
        return f"    {name}: {hint}" + (f" = {default}" if default is not None else "")

    def _default(self, part: Schema, annotation: Annotation) -> str:
        """Return the default as source text; ``lambda: ...`` for values that are created each time."""
        value = part["default"]
        plain = {"str": str, "int": int, "bool": bool, "float": int | float, "IntOrString": int | str}
        if annotation.text in plain and isinstance(value, plain[annotation.text]):
            return repr(value)
        if part.get("enum") and value is not None and annotation.text in self._classes:
            return f"{annotation.text}({value!r})"
        values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        if _SCALAR_ITEMS.match(annotation.text) and all(isinstance(one, str | int | float) for one in values):
            return f"lambda: {value!r}"
        self._imports.setdefault("msgspec", set())
        self._add_import("opsdk.apimachinery.model", "decode_hook")
        return f"lambda: msgspec.convert({value!r}, {annotation.text}, dec_hook=decode_hook)"

    # -------------------------------------------------------------- types
    def _hint(self, schema: Schema, annotation: Annotation, *, optional: bool = False) -> str:
        """Return the annotation of a field or an element, with its markers."""
        hint = annotation.text
        markers = self._markers(schema, annotation)
        nulls = bool(schema.get("nullable"))
        is_any = hint in ("Any", "Any_")
        with_none = (nulls or optional) and not is_any
        if nulls and (optional or is_any):
            markers.insert(0, f"{self._add_import(_MARKER_MODULE, 'nullable')}()")
        if annotation.bounds:
            self._imports.setdefault("msgspec", set())
            meta = f"msgspec.Meta({', '.join(f'{name}={value!r}' for name, value in annotation.bounds.items())})"
            if with_none:  # msgspec takes bounds of the type itself only
                hint = f"{self._add_import('typing', 'Annotated')}[{hint}, {meta}]"
            else:
                markers.insert(0, meta)
        if with_none:
            hint += " | None"
        if markers:
            hint = f"{self._add_import('typing', 'Annotated')}[{hint}, {', '.join(markers)}]"
        return hint

    def _markers(self, schema: Schema, annotation: Annotation) -> list[str]:
        """Return markers for what the schema says beyond the type."""
        implied = annotation.implied
        more = {k: v for k, v in schema.items() if k not in implied or implied[k] != v}
        more |= {k: None for k in implied if k not in schema}
        if implied.get("items") is _condition_schema():
            more["items"] = _undescribed(more["items"])
        more.pop("nullable", None)
        more.pop("default", None)
        text = more.pop("description", "")
        markers = []
        if text and not annotation.described:
            self._imports.setdefault("msgspec", set())
            markers.append(f"msgspec.Meta(description={text!r})")
        if more.get(LIST_TYPE) is not None:
            keys = f", keys={tuple(more.pop(LIST_KEYS))!r}" if more.get(LIST_KEYS) else ""
            markers.append(f"{self._add_import(_MARKER_MODULE, 'list_type')}({more.pop(LIST_TYPE)!r}{keys})")
        if more.get(MAP_TYPE) is not None:
            markers.append(f"{self._add_import(_MARKER_MODULE, 'map_type')}({more.pop(MAP_TYPE)!r})")
        if more.get(RULES):
            calls = ", ".join(self._call("Rule", rule) for rule in more.pop(RULES))
            markers.append(f"{self._add_import(_MARKER_MODULE, 'validations')}({calls})")
        if more.pop(EMBEDDED, None):
            markers.append(f"{self._add_import(_MARKER_MODULE, 'embedded_resource')}()")
        if more.get(PRESERVE):
            del more[PRESERVE]
            markers.append(f"{self._add_import(_MARKER_MODULE, 'preserve_unknown_fields')}()")
        if more:
            markers.append(f"{self._add_import(_MARKER_MODULE, 'json_schema')}({more!r})")
        return markers

    def _annotation(self, schema: Schema, path: tuple[str, ...]) -> Annotation:
        """Return the annotation of a schema, with the keywords that it implies."""
        values = [value for value in schema.get("enum", ()) if value is not None]
        if values and schema.get("type") in ("string", "integer"):
            # `crd_for` adds null where null is allowed.
            enum = [*values, None] if schema.get("nullable") else schema["enum"]
            return Annotation(self._enum(values, path), {"type": schema["type"], "enum": enum})
        match schema.get("type"):
            case "string":
                return self._string(schema)
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return Annotation("bool", {"type": "boolean"})
            case "array":
                return self._list(schema, path)
            case "object":
                return self._object(schema, path)
        if schema.get(INT_OR_STRING) and schema.get("anyOf") == _INT_OR_STRING_TYPES:
            quantity = str(schema.get("pattern", "")).startswith(
                r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)"
            )
            name = self._add_import("opsdk.apimachinery.quantity", "Quantity" if quantity else "IntOrString")
            implied: JsonObject = {INT_OR_STRING: True, "anyOf": _INT_OR_STRING_TYPES}
            return Annotation(name, implied | ({"pattern": schema["pattern"]} if quantity else {}))
        return Annotation(self._add_import("typing", "Any"), {PRESERVE: True})

    def _string(self, schema: Schema) -> Annotation:
        module, name = _STRINGS.get(schema.get("format", ""), ("", ""))
        if name:
            return Annotation(self._add_import(module, name), {"type": "string", "format": schema["format"]})
        bounds = {word: schema[key] for key, word in _BOUNDS["string"].items() if key in schema}
        if "pattern" in bounds:
            try:
                re.compile(bounds["pattern"])
            except re.error:  # RE2 syntax: only the server can validate it
                del bounds["pattern"]
        implied = {key: schema[key] for key, word in _BOUNDS["string"].items() if word in bounds}
        return Annotation("str", {"type": "string", **implied}, bounds)

    def _list(self, schema: Schema, path: tuple[str, ...]) -> Annotation:
        items = schema.get("items", {PRESERVE: True})
        bounds = {word: schema[key] for key, word in _BOUNDS["array"].items() if schema.get(key)}
        implied = {"type": "array", "items": items, **{k: schema[k] for k in _BOUNDS["array"] if schema.get(k)}}
        properties = set(items.get("properties", ()))
        if path[-1] == "conditions" and properties >= _CONDITION and properties <= {*_CONDITION, "observedGeneration"}:
            condition = self._add_import("opsdk.apimachinery.meta", "Condition")
            is_usual = _undescribed(items) == _condition_schema()
            implied |= {LIST_TYPE: "map", LIST_KEYS: ["type"], "items": items if is_usual else _condition_schema()}
            return Annotation(f"list[{condition}]", implied, bounds)
        element = self._annotation(items, (*path, "item"))
        return Annotation(f"list[{self._hint(items, element)}]", implied, bounds)

    def _object(self, schema: Schema, path: tuple[str, ...]) -> Annotation:
        """Return the annotation of an object: a dict, free-form JSON, or a class of its own."""
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and not schema.get(PRESERVE):
            bounds = {word: schema[key] for key, word in _BOUNDS["object"].items() if schema.get(key)}
            limits = {k: schema[k] for k in _BOUNDS["object"] if schema.get(k)}
            value = self._annotation(values, (*path, "value"))
            text = f"dict[str, {self._hint(values, value)}]"
            if text in ("dict[str, Any]", "dict[str, Any_]"):
                return Annotation(text, {"type": "object", PRESERVE: True})
            return Annotation(text, {"type": "object", "additionalProperties": values, **limits}, bounds)
        if schema.get(PRESERVE) and not schema.get("properties"):
            name = self._add_import("opsdk.structured_merge.value", "JsonObject")
            return Annotation(name, {"type": "object", PRESERVE: True})
        if path[-1] == "metadata" and not schema.get("properties"):
            return Annotation(self._add_import("opsdk.apimachinery.meta", "ObjectMeta"), {"type": "object"})
        name, described = self._class(schema, path)
        implied = {key: schema[key] for key in ("type", "properties", "required", RULES) if key in schema}
        return Annotation(name, implied | ({"description": schema["description"]} if described else {}), {}, described)

    def _add_import(self, module: str, name: str) -> str:
        """Import a name; return the one that it has in the module, where a kind may have the same."""
        if not module:
            return name
        local = f"{name}_" if name in self._kinds else name
        self._imports.setdefault(module, set()).add(name if local == name else f"{name} as {local}")
        return local


def model_files(definitions: Sequence[JsonObject], *, source: str) -> dict[str, str]:
    """Return path -> source text of the classes of `definitions`: a package per group, a module per version."""
    kinds: dict[tuple[str, str], list[str]] = {}
    versions = [(d["spec"], version) for d in definitions for version in d["spec"]["versions"]]
    for spec, version in versions:
        kinds.setdefault((spec["group"], version["name"]), []).append(spec["names"]["kind"])
    modules = {key: ModelModule(*key, kinds=names, source=source) for key, names in kinds.items()}
    for spec, version in versions:
        modules[spec["group"], version["name"]].add(spec, version)
    files = {}
    for (group, version), module in sorted(modules.items()):
        package = re.sub(r"\W", "_", group)
        files[f"{package}/__init__.py"] = f'"""Kinds of the API group ``{group}``."""\n'
        files[f"{package}/{version}.py"] = module.render()
    return files


@cache
def _condition_schema() -> JsonObject:
    """Return what `crd_for` writes for a `Condition`, without descriptions."""
    return _undescribed(Schemas("").of(msgspec.inspect.type_info(Condition)))


def _undescribed(items: Schema) -> JsonObject:
    """Return the schema of a condition without descriptions, which the class `Condition` has."""
    bare = {key: value for key, value in items.items() if key != "description"}
    properties = items.get("properties", {}).items()
    return bare | {
        "properties": {name: {k: v for k, v in part.items() if k != "description"} for name, part in properties}
    }


def _class_name(kind: str) -> str:
    """Return the class of a kind: its name, unless Python needs that.

    >>> _class_name("Site"), _class_name("None"), _class_name("list")
    ('Site', 'None_', 'list_')
    """
    return f"{kind}_" if keyword.iskeyword(kind) or kind in _BUILTINS else kind


def without_nulls(schema: Schema) -> Schema:
    """Return a schema without keywords that are null, as the server decodes them. Values such as defaults stay.

    >>> without_nulls({"type": "object", "properties": None, "items": {"format": None, "default": {"a": None}}})
    {'type': 'object', 'items': {'default': {'a': None}}}
    """
    return {key: _present(key, value) for key, value in schema.items() if value is not None}


def _present(keyword_: str, value: JsonValue) -> JsonValue:
    if keyword_ == "properties" and isinstance(value, Mapping):
        return {name: without_nulls(below) for name, below in value.items() if below is not None}
    if keyword_ in ("default", "example", "enum"):
        return value
    if isinstance(value, list):
        return [without_nulls(item) if isinstance(item, Mapping) else item for item in value]
    return without_nulls(value) if isinstance(value, Mapping) else value


def _docstring(text: str) -> Sequence[str]:
    """Return the lines of a docstring whose first paragraph is `text`; none if a docstring cannot hold it."""
    if not text or text != " ".join(text.split()) or "\\" in text or '"' in text or text.startswith("Attributes:"):
        return []
    return [f'    """{text}"""', ""]


def _number(schema: Schema) -> Annotation:
    kind = schema["type"]
    implied: JsonObject = {"type": kind, **({"format": "int64"} if kind == "integer" else {})}
    bounds: dict[str, JsonValue] = {}
    for key, exclusive, word, strict in (
        ("minimum", "exclusiveMinimum", "ge", "gt"),
        ("maximum", "exclusiveMaximum", "le", "lt"),
    ):
        if key in schema:
            bounds[strict if schema.get(exclusive) else word] = schema[key]
            implied |= {name: schema[name] for name in (key, exclusive) if name in schema}
    if schema.get("multipleOf"):
        bounds["multiple_of"] = implied["multipleOf"] = schema["multipleOf"]
    return Annotation("int" if kind == "integer" else "float", implied, bounds)
