"""Laws of types: what fits, and what is said about what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cel import types
from opsdk.cel.environment import CelEnvironment
from opsdk.cel.errors import CelCompileError
from opsdk.cel.library.optionals import OPTIONALS_LIBRARY
from opsdk.cel.library.standard import STANDARD_LIBRARY
from opsdk.cel.library.texts import TWO_VARIABLES_LIBRARY
from opsdk.cel.types import (
    DYN,
    INT,
    STRING,
    Type,
    assignable,
    list_of,
    map_of,
    object_of,
    optional_of,
    param,
    substitute,
)

POINT = object_of("Point", {"x": INT, "label": STRING})
ENVIRONMENT = CelEnvironment(
    [STANDARD_LIBRARY, OPTIONALS_LIBRARY, TWO_VARIABLES_LIBRARY],
    variables={
        "i": INT,
        "s": STRING,
        "l": list_of(INT),
        "m": map_of(STRING, INT),
        "p": POINT,
        "d": DYN,
        "o": optional_of(POINT),
        "a.b": STRING,
    },
    types={"Point": POINT},
    construct=lambda type_, fields: {"is": type_.name, **fields},
)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("i + 1", "int"),
        ("[1, 2]", "list(int)"),
        ("[]", "list(dyn)"),
        ("{'a': [i]}", "map(string, list(int))"),
        ("i > 0 ? s : 'x'", "string"),
        ("d + 1", "int"),
        ("d.x.y", "dyn"),
        ("p.x", "int"),
        ("p == null", "bool"),
        ("l.map(e, string(e))", "list(string)"),
        ("m.map(k, m[k])", "list(int)"),
        ("l.exists_one(e, e > 1)", "bool"),
        ("l.transformMap(k, e, s)", "map(int, string)"),
        ("o.x", "optional_type(int)"),
        ("o.?label.orValue('')", "string"),
        ("m.?a", "optional_type(int)"),
        ("l[?0]", "optional_type(int)"),
        ("[?o.x]", "list(int)"),
        ("a.b", "string"),
        ("a.b.size()", "int"),
        (".i", "int"),
        ("type(i)", "type(int)"),
        ("google.protobuf.Timestamp", "type(timestamp)"),
        ("Point{x: 1, ?label: optional.of('a')}", "Point"),
        ("[[], [1]]", "list(list(int))"),
        ("timestamp('2020-01-01T00:00:00Z') - duration('1h')", "timestamp"),
        ("l.map(i, i)", "list(int)"),
    ],
)
def test_expressions_have_the_type_of_cel_go(text: str, type_: str) -> None:
    """The checker gives each expression the type that cel-go gives it."""
    assert str(ENVIRONMENT.compile(text).type) == type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i + s", "1:3: found no matching overload for '_+_' applied to '(int, string)'"),
        ("1 == 1.0", "1:3: found no matching overload for '_==_' applied to '(int, double)'"),
        ("!i", "1:1: found no matching overload for '!_' applied to '(int)'"),
        ("s.size(1)", "1:7: found no matching overload for 'size' applied to 'string.(int)'"),
        ("'a' in l", "1:5: found no matching overload for '@in' applied to '(string, list(int))'"),
        ("l['a']", "1:2: found no matching overload for '_[_]' applied to '(list(int), string)'"),
        ("i ? 1 : 2", "1:3: found no matching overload for '_?_:_' applied to '(int, int, int)'"),
        ("i > 0 ? 1 : 'a'", "1:7: found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("p.z", "1:2: undefined field 'z'"),
        ("has(p.z)", "1:4: undefined field 'z'"),
        ("i.x", "1:2: type 'int' does not support field selection"),
        ("x", "1:1: undeclared reference to 'x' (in container '')"),
        ("x.y(1)", "1:1: undeclared reference to 'x' (in container '')"),
        ("i.y(1)", "1:4: undeclared reference to 'y' (in container '')"),
        (
            "i.map(e, e)",
            "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("l.all(e, e)", "1:10: expected type 'bool' but found 'int'"),
        ("[?1]", "1:3: expected type 'optional_type(int)' but found 'int'"),
        ("Point{x: 'a'}", "1:8: expected type of field 'x' is 'int' but provided type is 'string'"),
        ("Point{z: 1}", "1:8: undefined field 'z'"),
        ("int{}", "1:4: 'int' is not a message type"),
        ("Nope{}", "1:5: undeclared reference to 'Nope' (in container '')"),
        ("p < p", "1:3: found no matching overload for '_<_' applied to '(Point, Point)'"),
    ],
)
def test_type_errors_have_cel_gos_text_and_position(text: str, message: str) -> None:
    """Type errors have cel-go's text and position."""
    with pytest.raises(CelCompileError) as caught:
        ENVIRONMENT.compile(text)
    assert str(caught.value).startswith(f"ERROR: <input>:{message}\n")


def test_one_type_error_is_one_message() -> None:
    """A type error causes no further errors, and independent errors are reported in order."""
    with pytest.raises(CelCompileError) as caught:
        ENVIRONMENT.compile("p.z + 1 > 2 && x == 1 && i + s == 2")
    lines = [line for line in str(caught.value).splitlines() if line.startswith("ERROR")]
    assert [line.split(": ")[1].split(":")[1:3] for line in lines] == [["1", "2"], ["1", "16"], ["1", "28"]]


def test_objects_are_constructed_by_their_owner() -> None:
    """The environment says what an object of a declared type is."""
    assert ENVIRONMENT.compile("Point{x: i, label: 'a'}").evaluate({"i": 3}) == {"is": "Point", "x": 3, "label": "a"}


class _Endless(dict[str, Type]):
    """Makes up a type for every name below ``Object``, each with fields of the types below its own name."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self._prefix = prefix

    def __contains__(self, name: object) -> bool:
        return bool(self._prefix) or str(name).split(".")[0] == "Object"

    def __missing__(self, name: str) -> Type:
        if name not in self:
            raise KeyError(name)
        full = f"{self._prefix}{name}"
        return object_of(full, _Endless(f"{full}.")) if not name[-1].isdigit() else INT

    def get(self, name: str, default: object = None) -> Type | None:  # type: ignore[override]
        return self[name] if name in self else None  # noqa: SIM401 - a dict's own get does not make up anything


def test_object_types_may_be_created_on_lookup() -> None:
    """An object type may be created when it is looked up, as for admission policies."""
    environment = CelEnvironment([STANDARD_LIBRARY], types=_Endless(), construct=lambda _, fields: fields)
    program = environment.compile("Object{spec: Object.spec{a: Object.spec.a{n1: 3}}}")
    assert program.evaluate({}) == {"spec": {"a": {"n1": 3}}}
    assert str(program.type) == "Object"
    with pytest.raises(CelCompileError, match=r"type of field 'spec' is 'Object.spec' but provided type is 'O"):
        environment.compile("Object{spec: Object.other{}}")


SIMPLE = st.sampled_from([types.INT, types.STRING, types.BOOL, types.DOUBLE, types.BYTES])
TYPES: st.SearchStrategy[Type] = st.recursive(
    SIMPLE, lambda inner: st.one_of(inner.map(list_of), st.builds(map_of, SIMPLE, inner), inner.map(optional_of))
)


@given(TYPES)
def test_a_parameter_becomes_what_it_meets(type_: Type) -> None:
    """Binding a parameter and replacing it gives the type back; nothing contains itself."""
    bindings: dict[str, Type] = {}
    assert assignable(bindings, type_, param("T"))
    assert substitute(bindings, list_of(param("T"))) == list_of(type_)
    assert not assignable({}, list_of(param("T")), param("T"))


@given(TYPES, TYPES)
def test_fitting_is_symmetric_without_parameters(one: Type, other: Type) -> None:
    """Without dyn and parameters, types fit exactly if they are equal."""
    assert assignable({}, one, other) == assignable({}, other, one) == (one == other)
    assert assignable({}, one, DYN)
