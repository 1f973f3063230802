"""The grammar of field types: ``string``, ``map[array[reference[/v3/schemas/cluster]]]``, or the id of a schema.

Upstream: github.com/rancher/norman/types/definition/definition.go
Deviates: a type that does not parse is an error when its schema is added; norman takes it for the id of a schema.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import msgspec

from opsdk.errors import UsageError

SIMPLE_TYPES = frozenset(
    [
        "base64",
        "boolean",
        "byte",
        "date",
        "dnsLabel",
        "dnsLabelRestricted",
        "enum",
        "float",
        "hostname",
        "int",
        "intOrString",
        "json",
        "password",
        "reference",
        "string",
    ]
)
"""Types without a parameter; every other name is the id of a schema."""


class Container(Enum):
    """A type with a parameter in brackets."""

    MAP = "map"
    ARRAY = "array"
    REFERENCE = "reference"


class TypeExpression(msgspec.Struct, frozen=True):
    """A parsed field type.

    >>> expression = TypeExpression.parse("map[array[reference[cluster]]]")
    >>> str(expression), str(expression.element), str(expression.leaf)
    ('map[array[reference[cluster]]]', 'array[reference[cluster]]', 'reference[cluster]')

    Attributes:
        name: a simple type, the id of a schema, or its full path (``/v3/schemas/cluster``); empty for a container.
        container: the container, or None.
        element: the type in the brackets of a container.
    """

    name: str = ""
    container: Container | None = None
    element: TypeExpression | None = None

    @classmethod
    def parse(cls, text: str) -> TypeExpression:
        """Return the type that `text` describes. Raises `UsageError` if it does not parse."""
        return _parse(text)

    @property
    def is_map(self) -> bool:
        """Whether this is ``map[...]``."""
        return self.container is Container.MAP

    @property
    def is_array(self) -> bool:
        """Whether this is ``array[...]``."""
        return self.container is Container.ARRAY

    @property
    def is_reference(self) -> bool:
        """Whether this is ``reference[...]``, or ``reference`` to a schema that is not known."""
        return self.container is Container.REFERENCE or self.name == "reference"

    @property
    def is_simple(self) -> bool:
        """Whether the value is a scalar that needs no schema."""
        return self.is_reference or self.name in SIMPLE_TYPES

    @property
    def target(self) -> str:
        """The schema that a reference points to, or the id of a nested schema; empty for other types."""
        if self.container is Container.REFERENCE and self.element is not None:
            return self.element.name
        return "" if self.container is not None or self.name in SIMPLE_TYPES else self.name

    @property
    def leaf(self) -> TypeExpression:
        """The type below all maps and arrays."""
        if self.element is None or self.container is Container.REFERENCE:
            return self
        return self.element.leaf

    def __str__(self) -> str:
        return self.name if self.container is None else f"{self.container.value}[{self.element}]"


_CONTAINERS = {container.value: container for container in Container}


@lru_cache(maxsize=4096)
def _parse(text: str) -> TypeExpression:
    start = text.find("[")
    if start < 0 and "]" not in text and text.strip() == text != "":
        return TypeExpression(name=text)
    container = _CONTAINERS.get(text[: max(start, 0)])
    if container is None or not text.endswith("]"):
        raise UsageError(
            f"the field type {text!r} does not parse: write string, int, map[T], array[T], reference[ID] or a schema"
        )
    element = _parse(text[start + 1 : -1])
    if container is Container.REFERENCE and (element.container is not None or element.name in SIMPLE_TYPES):
        raise UsageError(f"the field type {text!r} does not parse: write reference[ID] with the id of a schema")
    return TypeExpression(container=container, element=element)
