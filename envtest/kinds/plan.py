"""Reading bodies of built-in types the way the real server's decoder does, from the tables. Pure.

A *plan* is a compiled schema: a function from a value to the value as it would be after decoding and encoding once.
Unknown fields are dropped and reported; nulls and empty optional lists, maps and strings vanish; a wrong type is a
`DecodeError` in the decoder's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from envtest.kinds.quantities import canonical
from envtest.kinds.times import read_micro_time, read_time
from envtest.tables.fields import NULL, PLAIN, SHOWN, forms
from envtest.tables.load import Types
from opsdk.apiserver.endpoints.documents import json_kind
from opsdk.errors import DecodeError
from opsdk.tree.go_text import whole_numbers

_REF = "#/components/schemas/"
_PREFIX = "io.k8s.apimachinery.pkg."
_GO_TYPES = {"integer:int32": "int32", "integer:int64": "int64", "integer": "int64", "number:double": "float64"}


@dataclass(slots=True)
class Reading:
    """Where in the document the reader is, and what it found."""

    problems: list[str] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    above: int = 0
    """So many parts of the path lie above what Go's decoder reads: it does not name them."""
    struct: str = ""

    def at(self) -> str:
        """The path as strict decoding writes it."""
        text = ""
        for part in self.path:
            text += part if part.startswith("[") or not text else f".{part}"
        return text


Plan = Callable[[Any, Reading], Any]
_GONE = object()


class _Key(str):
    """A key of a map, which is no field: Go's decoder does not name it."""

    __slots__ = ()


def _mismatch(value: Any, reading: Reading, go_type: str) -> DecodeError:
    fields = ".".join(p for p in reading.path[reading.above :] if not p.startswith("[") and not isinstance(p, _Key))
    where = f"Go struct field {reading.struct}.{fields}" if fields else "Go value"
    if go_type == "string" and fields.rpartition(".")[2] == "uid":
        go_type = "types.UID"
    shown = f"number {value}" if isinstance(value, float) and go_type.startswith("int") else json_kind(value)
    return DecodeError(f"json: cannot unmarshal {shown} into {where} of type {go_type}")


def _string(value: Any, reading: Reading) -> Any:
    if not isinstance(value, str):
        raise _mismatch(value, reading, "string")
    return value


_SIXTY_FOUR = "[A-Za-z0-9+/]"
_BASE64 = re.compile(f"(?:{_SIXTY_FOUR}{{4}})*(?:{_SIXTY_FOUR}{{2}}==|{_SIXTY_FOUR}{{3}}=)?")
_LETTER = re.compile(_SIXTY_FOUR)


def _corrupt(text: str) -> int | None:
    """Where Go's decoder stops, which reads past line ends; None where it does not."""
    at = have = 0
    while at < len(text):
        letter, at = text[at], at + 1
        if _LETTER.match(letter):
            have = (have + 1) % 4
        elif letter == "=" and have >= 2:
            return _after_padding(text, at, have)
        elif letter not in "\r\n":
            return at - 1
    return at - have if have else None


def _after_padding(text: str, at: int, have: int) -> int | None:
    rest = at + len(text[at:]) - len(text[at:].lstrip("\r\n"))
    if have == 2:
        if rest == len(text):
            return rest
        if text[rest] != "=":
            return rest - 1
        return _after_padding(text, rest + 1, 3)
    return rest if rest < len(text) else None


def _bytes(value: Any, reading: Reading) -> Any:
    if not isinstance(value, str):
        raise _mismatch(value, reading, "[]uint8")
    if _BASE64.fullmatch(value) is None:
        bad = _corrupt(value)
        if bad is not None:
            raise DecodeError(f"illegal base64 data at input byte {bad}")
    return value


def _boolean(value: Any, reading: Reading) -> Any:
    if not isinstance(value, bool):
        raise _mismatch(value, reading, "bool")
    return value


def _integer(go_type: str) -> Plan:
    limit = 2**31 if go_type == "int32" else 2**63

    def read(value: Any, reading: Reading) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _mismatch(value, reading, go_type)
        if not -limit <= value < limit:
            raise DecodeError(
                f"json: cannot unmarshal number {value} into Go struct field"
                f" {reading.struct}.{reading.at()} of type {go_type}"
            )
        return value

    return read


def _number(value: Any, reading: Reading) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _mismatch(value, reading, "float64")
    return whole_numbers(value)


def _any(value: Any, reading: Reading) -> Any:  # noqa: ARG001 - one shape for all
    return value


def _object(value: Any, reading: Reading) -> Any:
    if not isinstance(value, dict):
        raise _mismatch(value, reading, "map[string]interface {}")
    return value


def _nothing(item: Plan, go_type: str) -> Any:
    """What Go's decoder leaves where a list or map has a null: nothing of the type, as it is then written."""
    return item({}, Reading()) if isinstance(item, _Late) else _ZERO_OF.get(go_type)


_ZERO_OF: Mapping[str, Any] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float64": 0,
    "resource.Quantity": "0",
    "intstr.IntOrString": 0,
}


def _array(item: Plan, go_type: str) -> Plan:
    def read(value: Any, reading: Reading) -> Any:
        if not isinstance(value, list):
            raise _mismatch(value, reading, f"[]{go_type}")
        made = []
        for index, part in enumerate(value):
            reading.path.append(f"[{index}]")
            made.append(_nothing(item, go_type) if part is None else item(part, reading))
            reading.path.pop()
        return made

    return read


def _map(item: Plan, go_type: str) -> Plan:
    def read(value: Any, reading: Reading) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(value, reading, f"map[string]{go_type}")
        made = {}
        for key, part in value.items():
            reading.path.append(_Key(key))
            made[key] = _nothing(item, go_type) if part is None else item(part, reading)
            reading.path.pop()
        return made

    return read


class _Late:
    """A struct's plan, compiled when it is first used."""

    def __init__(self, plans: Plans, name: str) -> None:
        self._plans = plans
        self._name = name
        self._found: Struct | None = None

    def __call__(self, value: Any, reading: Reading) -> Any:
        if self._found is None:
            self._found = self._plans.struct(self._name)
        return self._found(value, reading)


class Plans:
    """Compiles plans by type name, lazily."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self._structs: dict[str, Struct] = {}

    def struct(self, name: str) -> Struct:
        """The plan of a type with fields."""
        found = self._structs.get(name)
        if found is None:
            found = self._structs[name] = Struct(name, self._types.schema(name) or {}, self)
        return found

    def of(self, schema: Mapping[str, Any]) -> tuple[Plan, str]:
        """The plan of a schema and the name of its Go type."""
        ref = schema["allOf"][0]["$ref"] if "allOf" in schema else schema.get("$ref")
        if ref:
            return self._reference(str(ref).removeprefix(_REF))
        match schema.get("type"):
            case "string":
                return (_string, "string") if schema.get("format") != "byte" else (_bytes, "[]uint8")
            case "boolean":
                return _boolean, "bool"
            case "integer":
                go_type = _GO_TYPES.get(f"integer:{schema.get('format', 'int64')}", "int64")
                return _integer(go_type), go_type
            case "number":
                return _number, "float64"
            case "array":
                item, go_type = self.of(schema["items"])
                return _array(item, go_type), f"[]{go_type}"
            case "object" if "additionalProperties" in schema:
                item, go_type = self.of(schema["additionalProperties"])
                return _map(item, go_type), f"map[string]{go_type}"
            case "object":
                return _object, "map[string]interface {}"
            case _:
                return _any, "interface {}"

    def _reference(self, name: str) -> tuple[Plan, str]:
        schema = self._types.schema(name) or {}
        short = name.rpartition(".")[2]
        if "properties" in schema or short in _EMPTY_STRUCTS:
            # Looked up when it is used: types may contain themselves.
            return _Late(self, name), go_name(name)
        if short.startswith("JSONSchemaPropsOr"):
            return _either(_Late(self, name[: name.index("Or", name.rindex("."))]), go_name(name)), go_name(name)
        special = SPECIAL.get(short)
        return (special, go_name(name)) if special is not None else (_any, go_name(name))


_EMPTY_STRUCTS = frozenset({"CustomResourceSubresourceStatus"})
"""Structs without any field."""


def _either(struct: Plan, go_type: str) -> Plan:
    """A struct, or instead a boolean, a list of structs or of strings, as the name of the type says."""

    def read(value: Any, reading: Reading) -> Any:
        # What is inside is read for itself: nobody is told of what is unknown there.
        reading = Reading(path=list(reading.path), struct=reading.struct)
        if isinstance(value, dict):
            return struct(value, reading)
        if go_type.endswith("OrBool") and isinstance(value, bool):
            return value
        if go_type.endswith("OrArray") and isinstance(value, list):
            return _array(struct, "v1.JSONSchemaProps")(value, reading)
        if go_type.endswith("OrStringArray") and isinstance(value, list):
            return _array(_string, "string")(value, reading)
        raise _mismatch(value, reading, go_type)

    return read


def go_name(name: str) -> str:
    """``io.k8s.api.core.v1.Pod`` as Go writes it: ``v1.Pod``."""
    package, _, short = name.rpartition(".")
    return f"{package.rpartition('.')[2]}.{short}"


def _time(value: Any, reading: Reading) -> Any:
    if not isinstance(value, str):
        raise _mismatch(value, reading, "string")
    return read_time(value)


def _micro_time(value: Any, reading: Reading) -> Any:
    if not isinstance(value, str):
        raise _mismatch(value, reading, "string")
    return read_micro_time(value)


def _json(value: Any, reading: Reading) -> Any:  # noqa: ARG001 - one shape for all
    return value


def _int_or_string(value: Any, reading: Reading) -> Any:
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return value
    raise _mismatch(value, reading, "int32")


def _quantity(value: Any, reading: Reading) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _mismatch(value, reading, "string")
    return canonical(str(value))


SPECIAL: dict[str, Plan] = {
    "Time": _time,
    "MicroTime": _micro_time,
    "IntOrString": _int_or_string,
    "JSON": _json,
    "Quantity": _quantity,
}
"""Types with a wire form of their own."""


@dataclass(frozen=True, slots=True)
class _Field:
    plan: Plan
    mark: str
    """See `envtest.tables.fields`."""
    zero: Any
    """What the encoder writes where nothing was given; `_GONE` for nothing."""
    many: bool
    """A list, or an object whose keys are data."""
    plain: type | None
    """A value of this very type is read as it is."""

    def kept(self, value: Any) -> bool:
        """Whether the encoder writes the value; parts that are objects are behind pointers."""
        return bool(value) or self.mark != PLAIN or (isinstance(value, dict) and not self.many)


_PLAIN_TYPES: dict[Plan, type] = {_string: str, _boolean: bool}
_ZEROS: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}
_SPECIAL_ZEROS: Mapping[str, Any] = {"IntOrString": 0, "Quantity": "0"}


class Struct:
    """The plan of an object with named fields."""

    def __init__(self, name: str, schema: Mapping[str, Any], plans: Plans) -> None:
        self.name = name
        self._short = name.rpartition(".")[2]
        marks = forms(name)
        self._fields = {
            key: self._field(inner, plans, marks.get(key, PLAIN)) for key, inner in schema.get("properties", {}).items()
        }
        self._always = [key for key, f in self._fields.items() if f.zero is not _GONE]

    @staticmethod
    def _field(schema: Mapping[str, Any], plans: Plans, mark: str) -> _Field:
        plan, go_type = plans.of(schema)
        zero = _GONE
        if mark == NULL:
            zero = None
        elif mark == SHOWN:
            zero = _SPECIAL_ZEROS.get(go_type.rpartition(".")[2], _ZEROS.get(schema.get("type", ""), {}))
        many = "additionalProperties" in schema or schema.get("type") == "array"
        return _Field(plan, mark, zero, many, _PLAIN_TYPES.get(plan))

    def __call__(self, value: Any, reading: Reading) -> Any:
        """Read one object."""
        if not isinstance(value, dict):
            raise _mismatch(value, reading, go_name(self.name))
        made: dict[str, Any] = {}
        outer, path = reading.struct, reading.path
        for key, part in value.items():
            known = self._fields.get(key)
            if known is not None and type(part) is known.plain:
                # Nothing to complain about, so nobody needs to know where it stands.
                if part or known.mark:
                    made[key] = part
                continue
            path.append(key)
            reading.struct = self._short
            if known is None:
                reading.problems.append(f'unknown field "{reading.at()}"')
            elif part is not None:
                read = known.plan(part, reading)
                if known.kept(read):
                    # Objects are kept in a form that does not tell an empty list from none.
                    made[key] = read if read or not known.many else None
            path.pop()
        reading.struct = outer
        for key in self._always:
            if key not in made:
                zero = self._fields[key].zero
                made[key] = self._fields[key].plan({}, Reading()) if zero == {} else zero
        return made
