"""A field that is computed by an expression.

Upstream: none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from opsdk.apiserver.expressions.environment import PER_CALL_LIMIT, kubernetes_environment
from opsdk.apiserver.expressions.mutation import as_tree
from opsdk.cel import types
from opsdk.cel.environment import Program
from opsdk.cel.errors import CelCompileError
from opsdk.cel.parser import RESERVED
from opsdk.cel.types import Type, TypeKind
from opsdk.errors import PatchError, UsageError
from opsdk.norman.mappers.paths import declare
from opsdk.norman.model import Schema, SchemaLookup
from opsdk.norman.schema_parts import Field
from opsdk.norman.type_expression import TypeExpression
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["FromCel"]

_TEXTS = ("base64", "date", "dnsLabel", "dnsLabelRestricted", "enum", "hostname", "password", "reference", "string")
_CEL_TYPES: Mapping[str, Type] = {
    "boolean": types.BOOL,
    "byte": types.INT,
    "float": types.DOUBLE,
    "int": types.INT,
    **dict.fromkeys(_TEXTS, types.STRING),
}
_FIELD_TYPES: Mapping[TypeKind, str] = {
    TypeKind.BOOL: "boolean",
    TypeKind.BYTES: "base64",
    TypeKind.DOUBLE: "float",
    TypeKind.DURATION: "string",
    TypeKind.INT: "int",
    TypeKind.STRING: "string",
    TypeKind.TIMESTAMP: "date",
    TypeKind.UINT: "int",
}


@dataclasses.dataclass(slots=True, kw_only=True)
class FromCel:
    """Adds a read-only field outward, computed by an expression in Kubernetes' CEL. Inward the field is removed.

    The variables of the expression are the fields that the schema has when the mapper changes it, with their types.
    ``self`` is the whole object. A field whose name is a reserved word, such as ``namespace``, is available as
    ``self.namespace``.

    >>> from opsdk.norman.schema_parts import ApiVersion
    >>> site = Schema(id="site", version=ApiVersion(), resource_fields={"replicas": Field(type="int")})
    >>> size = FromCel(field="size", expression="replicas > 3 ? 'large' : 'small'")
    >>> size.modify_schema(site, None)
    >>> data = {"replicas": 5}
    >>> size.from_internal(data); data, site.resource_fields["size"].type
    ({'replicas': 5, 'size': 'large'}, 'string')

    If the expression has no value for an object, for example because it reads an absent field, the object does not get
    the field.

    Attributes:
        field: the name of the new field.
        expression: the expression.
        type: the type of the field; by default the type of the expression.
        description: one sentence for people.
    """

    field: str
    expression: str
    type: str = ""
    description: str = ""
    _program: Program | None = dataclasses.field(default=None, init=False, repr=False)
    _floats: frozenset[str] = dataclasses.field(default=frozenset(), init=False, repr=False)

    def from_internal(self, data: JsonObject) -> None:
        """Compute the field. The cost of the expression is limited as in Kubernetes."""
        if self._program is None:
            return
        variables: dict[str, JsonValue] = {"self": dict(data)}
        for name in self._program.variables - {"self"}:
            if name in data:
                # JSON does not distinguish 3 and 3.0, and CEL cannot compare an int with a double.
                variables[name] = float(data[name]) if _is_int(data[name]) and name in self._floats else data[name]
        result = self._program.run(variables, limit=PER_CALL_LIMIT)
        if result.error is None:
            try:
                data[self.field] = as_tree(result.value)
            except PatchError:
                return

    def to_internal(self, data: JsonObject) -> None:
        """Remove the field."""
        data.pop(self.field, None)

    def modify_schema(self, schema: Schema, schemas: SchemaLookup) -> None:
        """Compile the expression, and declare the field.

        Raises:
            UsageError: the schema has the field, or the expression does not compile; the message shows where.
        """
        variables = {
            name: _cel_type(declared)
            for name, declared in schema.resource_fields.items()
            if name.isidentifier() and name not in RESERVED
        }
        environment = kubernetes_environment().extend(variables={**variables, "self": types.DYN})
        try:
            program = environment.compile(self.expression)
        except CelCompileError as error:
            raise UsageError(f"the expression of {self.field} on {schema.id} does not compile: {error}") from error
        kind = self.type or _field_type(program.type)
        TypeExpression.parse(kind)
        declare(
            schema,
            self.field,
            Field(type=kind, nullable=True, create=False, update=False, description=self.description),
        )
        self._program = program
        self._floats = frozenset(name for name, type_ in variables.items() if type_ == types.DOUBLE)


def _is_int(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _cel_type(declared: Field) -> Type:
    """Return the type of a variable; DYN where null or several types are possible."""
    return types.DYN if declared.nullable else _of_expression(TypeExpression.parse(declared.type))


def _of_expression(expression: TypeExpression) -> Type:
    if expression.is_reference:
        return types.STRING
    if expression.element is not None:
        element = _of_expression(expression.element)
        return types.map_of(types.STRING, element) if expression.is_map else types.list_of(element)
    return _CEL_TYPES.get(expression.name, types.DYN)


def _field_type(type_: Type) -> str:
    if type_.kind is TypeKind.LIST and type_.params:
        return f"array[{_field_type(type_.params[0])}]"
    if type_.kind is TypeKind.MAP and len(type_.params) > 1:
        return f"map[{_field_type(type_.params[1])}]"
    return _FIELD_TYPES.get(type_.kind, "json")
