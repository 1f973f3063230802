"""Typed classes for the objects of a Norman API, from its schemas. Pure.

Upstream: github.com/rancher/norman/generator/generator.go
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence

from opsdk.norman.client.client import SchemaInfo
from opsdk.norman.type_expression import TypeExpression

_SIMPLE = {
    "boolean": "bool",
    "byte": "int",
    "float": "float",
    "int": "int",
    "intOrString": "int | str",
    "json": "Any",
}
_STRINGS = "dict[str, str]"
_LINKS = (("id", "str"), ("type", "str"), ("baseType", "str"), ("links", _STRINGS), ("actions", _STRINGS))


def typed_client(schemas: Iterable[SchemaInfo], *, class_name: str, source: str) -> str:
    """Return a module with a TypedDict for each type, and a client with a property for each collection.

    Args:
        schemas: the types, as `NormanClient.schemas` has them.
        class_name: the name of the client.
        source: where the schemas are from, for the head of the module.
    """
    ordered = sorted(schemas, key=lambda schema: schema.id)
    names = {schema.id: _class_name(schema.id) for schema in ordered}
    classes = [_typed_dict(schema, names) for schema in ordered]
    collections = [_property(schema, names[schema.id]) for schema in ordered if "GET" in schema.collection_methods]
    body = "\n".join(collections) or "    pass\n"
    head = (
        f'"""The types of {source}. Made by ``opsdk generate norman-client``: do not edit."""\n\n'
        "from __future__ import annotations\n\n"
        "from typing import Any, Literal, TypedDict, cast\n\n"
        "from opsdk.norman.client.client import NormanClient, NormanCollection\n\n\n"
    )
    client = f'class {class_name}(NormanClient):\n    """A client of {source}."""\n\n{body}'
    return head + "\n\n".join(classes) + f"\n\n{client}"


def _typed_dict(schema: SchemaInfo, names: Mapping[str, str]) -> str:
    own = schema.resource_fields
    fields = [pair for pair in _LINKS if pair[0] not in own]
    fields += [(name, python_type(str(field.get("type", "json")), field, names)) for name, field in own.items()]
    name = names[schema.id]
    if all(field.isidentifier() and not keyword.iskeyword(field) for field, _ in fields):
        lines = "".join(f"    {field}: {kind}\n" for field, kind in fields)
        return f'class {name}(TypedDict, total=False):\n    """``{schema.id}``."""\n\n{lines}'
    # A field such as "from" or "a/b" cannot be an attribute of a class.
    items = "".join(f"        {field!r}: {kind!r},\n" for field, kind in fields)
    return f'{name} = TypedDict(\n    "{name}",\n    {{\n{items}    }},\n    total=False,\n)\n'


def python_type(text: str, field: Mapping[str, object], names: Mapping[str, str]) -> str:
    """Return the Python type of a field type.

    >>> python_type("map[array[int]]", {}, {}), python_type("enum", {"options": ["a", "b"]}, {})
    ('dict[str, list[int]]', "Literal['a', 'b']")
    """
    kind = _type(TypeExpression.parse(text), field, names)
    return f"{kind} | None" if field.get("nullable") and kind != "Any" else kind


def _type(expression: TypeExpression, field: Mapping[str, object], names: Mapping[str, str]) -> str:
    if expression.is_reference:
        return "str"
    if expression.element is not None:
        inner = _type(expression.element, field, names)
        return f"dict[str, {inner}]" if expression.is_map else f"list[{inner}]"
    options = field.get("options")
    if isinstance(options, Sequence) and options and expression.name in ("enum", "string"):
        return f"Literal[{', '.join(repr(str(option)) for option in options)}]"
    if expression.is_simple:
        return _SIMPLE.get(expression.name, "str")
    return names.get(expression.name.rpartition("/")[2], "dict[str, Any]")


def _property(schema: SchemaInfo, name: str) -> str:
    attribute = _snake(schema.plural_name or schema.id)
    return (
        f"    @property\n    def {attribute}(self) -> NormanCollection[{name}]:\n"
        f'        """``{schema.plural_name}``."""\n'
        f'        return cast("NormanCollection[{name}]", self.collection("{schema.id}"))\n'
    )


def _class_name(schema_id: str) -> str:
    name = "".join(part[:1].upper() + part[1:] for part in _words(schema_id))
    return f"{name}_" if keyword.iskeyword(name) or name in ("Any", "Literal", "TypedDict") else name


def _snake(text: str) -> str:
    joined = "".join(f"_{char.lower()}" if char.isupper() else char for char in "_".join(_words(text)))
    name = joined.strip("_")
    # Not the name of a method of the client.
    return f"{name}_" if keyword.iskeyword(name) or name in _METHODS else name


def _words(text: str) -> list[str]:
    separated = "".join(char if char.isalnum() else " " for char in text)
    return separated.split() or ["type"]


_METHODS = frozenset(
    ["action", "aclose", "by_id", "collection", "create", "delete", "discover", "link", "list", "reload", "replace",
     "schemas", "subscribe", "update"]
)  # fmt: skip
