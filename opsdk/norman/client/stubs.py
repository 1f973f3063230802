"""Typed classes for the objects of a Norman API, from its schemas. Pure.

Upstream: github.com/rancher/norman/generator/generator.go
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

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

    The collection of a type with actions has a method for each of them, with the types of its input and output.

    Args:
        schemas: the types, as `NormanClient.schemas` has them.
        class_name: the name of the client.
        source: where the schemas are from, for the head of the module.
    """
    ordered = sorted(schemas, key=lambda schema: schema.id)
    names = {schema.id: _class_name(schema.id) for schema in ordered}
    classes = [_typed_dict(schema, names) for schema in ordered]
    listed = [schema for schema in ordered if "GET" in schema.collection_methods]
    collections = {schema.id: _collection(schema, names) for schema in listed}
    properties = [_property(schema, collections[schema.id]) for schema in listed]
    body = "\n".join(properties) or "    pass\n"
    classes += [collection.code for collection in collections.values() if collection.code]
    used = sorted(name for name in _IMPORTED if any(name in text for text in (body, *classes)))
    head = (
        f'"""The types of {_escape(source)}. Made by ``opsdk generate norman-client``: do not edit."""\n\n'
        "from __future__ import annotations\n\n"
        "from typing import Any, Literal, TypedDict, cast\n\n"
        f"from opsdk.norman.client.client import {', '.join(['NormanClient', *used])}\n\n\n"
    )
    client = f'class {class_name}(NormanClient):\n    """A client of {_escape(source)}."""\n\n{body}'
    return head + "\n\n".join(classes) + f"\n\n{client}"


def _typed_dict(schema: SchemaInfo, names: Mapping[str, str]) -> str:
    own = schema.resource_fields
    fields = [pair for pair in _LINKS if pair[0] not in own]
    fields += [(name, python_type(str(field.get("type", "json")), field, names)) for name, field in own.items()]
    name = names[schema.id]
    if all(field.isidentifier() and not keyword.iskeyword(field) for field, _ in fields):
        lines = "".join(f"    {field}: {kind}\n" for field, kind in fields)
        return f'class {name}(TypedDict, total=False):\n    """``{_escape(schema.id)}``."""\n\n{lines}'
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


class _Collection(NamedTuple):
    """The class of a collection: its name as a type, and its code; empty for a type without actions."""

    type: str
    code: str


def _collection(schema: SchemaInfo, names: Mapping[str, str]) -> _Collection:
    name = names[schema.id]
    generic = f"NormanCollection[{name}]"
    taken = set(_COLLECTION_METHODS)
    methods = [_action(each, action, names, name, taken) for each, action in schema.resource_actions.items()]
    methods += [_action(each, action, names, "", taken) for each, action in schema.collection_actions.items()]
    if not methods:
        return _Collection(generic, "")
    own = f"{name}Collection"
    while own in names.values():
        own += "_"
    lines = "\n".join(methods)
    return _Collection(
        own,
        f'class {own}({generic}):\n    """``{_escape(schema.plural_name)}``, with their actions."""\n\n{lines}',
    )


def _action(name: str, action: Mapping[str, object], names: Mapping[str, str], target: str, taken: set[str]) -> str:
    """Return the method of an action: of an object of the type `target`, or of the collection if it is empty."""
    method = _snake(name)
    while method in taken:
        method += "_"
    taken.add(method)
    body = _schema_type(action.get("input"), names)
    result = _schema_type(action.get("output"), names)
    parameters = "".join(
        f", {part}" for part in (f"obj: {target}" * bool(target), f"data: {body}" * bool(body)) if part
    )
    arguments = "".join(f"{part}, " for part in ("obj" * bool(target), repr(name), "data" * bool(body)) if part)
    call = f"await self.{'action' if target else 'collection_action'}({arguments.removesuffix(', ')})"
    if result:
        call = f'cast("{result}", expect_result({name!r}, {call}))'
    return (
        f"    async def {method}(self{parameters}) -> {result or 'dict[str, Any] | None'}:\n"
        f'        """Run the action ``{_escape(name)}``."""\n'
        f"        return {call}\n"
    )


def _schema_type(schema_id: object, names: Mapping[str, str]) -> str:
    """Return the class of an input or output; empty for none."""
    return names.get(str(schema_id).rpartition("/")[2], "dict[str, Any]") if schema_id else ""


def _property(schema: SchemaInfo, collection: _Collection) -> str:
    expression = f'cast("{collection.type}", self.collection({schema.id!r}))'
    if collection.code:
        expression = f"{collection.type}(self, {schema.id!r})"
    return (
        f"    @property\n    def {_attribute(schema)}(self) -> {collection.type}:\n"
        f'        """``{_escape(schema.plural_name)}``."""\n'
        f"        return {expression}\n"
    )


def _attribute(schema: SchemaInfo) -> str:
    """Return the name of the property; not that of a method of the client."""
    name = _snake(schema.plural_name or schema.id)
    return f"{name}_" if name in _METHODS else name


def _class_name(schema_id: str) -> str:
    name = "".join(part[:1].upper() + part[1:] for part in _identifier_parts(schema_id))
    return f"{name}_" if keyword.iskeyword(name) or name in ("Any", "Literal", "TypedDict") else name


def _snake(text: str) -> str:
    joined = "".join(f"_{char.lower()}" if char.isupper() else char for char in "_".join(_identifier_parts(text)))
    name = joined.strip("_")
    return f"{name}_" if keyword.iskeyword(name) else name


def _identifier_parts(text: str) -> list[str]:
    """Return the parts of a name that make an identifier when they are joined."""
    words = re.sub("[^A-Za-z0-9]", " ", text).split()
    return words if words and words[0][0].isalpha() else ["type", *words]


def _escape(text: str) -> str:
    """Return a text for a docstring: the API is not trusted to write code."""
    return re.sub(r"[^\w ./:()-]", "?", text)


_METHODS = frozenset(
    ["action", "aclose", "by_id", "collection", "collection_action", "create", "delete", "discover", "link", "list",
     "reload", "replace", "schemas", "subscribe", "update"]
)  # fmt: skip
_COLLECTION_METHODS = frozenset(["action", "by_id", "collection_action", "create", "delete", "list", "update"])
_IMPORTED = ("NormanCollection", "expect_result")
