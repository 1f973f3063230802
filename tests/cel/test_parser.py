"""Laws of parsing: what is printed is read back, and no text is more than a syntax error."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opsdk.cel.errors import CelCompileError
from opsdk.cel.macros import BINDINGS, OPTIONALS, SORTING, STANDARD, TWO_VARIABLES
from opsdk.cel.parser import MAX_DEPTH, parse
from opsdk.cel.syntax import CallNode, Expr, Ident, ListOf, Literal, MapEntryNode, MapOf, Select, StructNode
from opsdk.cel.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT, Type
from opsdk.cel.values import UInt

_IDS = itertools.count()
_BINARY = ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||")


def spell(node: Expr) -> str:
    """The text of a tree without folds."""
    match node:
        case Literal():
            return _spell_literal(node)
        case Ident():
            return node.name
        case Select():
            chain = f"{_inner(node.operand)}.{node.field}"
            return f"has({chain})" if node.test else chain
        case CallNode():
            return _spell_call(node)
        case ListOf():
            marks = ["?" if index in node.optional else "" for index in range(len(node.elements))]
            return f"[{', '.join(mark + spell(one) for mark, one in zip(marks, node.elements, strict=True))}]"
        case MapOf():
            return "{" + ", ".join(_spell_entry(entry) for entry in node.entries) + "}"
        case StructNode():
            return node.name + "{" + ", ".join(_spell_entry(entry) for entry in node.entries) + "}"
    raise AssertionError(node)


def _inner(node: Expr) -> str:
    return f"({spell(node)})"


def _spell_entry(entry: MapEntryNode) -> str:
    key = entry.key if isinstance(entry.key, str) else spell(entry.key)
    return f"{'?' if entry.optional else ''}{key}: {spell(entry.value)}"


def _spell_literal(node: Literal) -> str:
    match node.value:
        case None:
            return "null"
        case bool():
            return "true" if node.value else "false"
        case UInt():
            return f"{int(node.value)}u"
        case bytes():
            return "b'" + "".join(f"\\x{byte:02x}" for byte in node.value) + "'"
        case str():
            return "'" + "".join(f"\\U{ord(char):08x}" for char in node.value) + "'"
        case float():
            return f"{node.value:e}"
    return str(node.value)


def _spell_call(node: CallNode) -> str:
    args = [_inner(arg) for arg in node.args]
    if node.target is not None:
        return f"{_inner(node.target)}.{node.function}({', '.join(map(spell, node.args))})"
    match node.function:
        case "_?_:_":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        case "_[_]":
            return f"{args[0]}[{args[1]}]"
        case "_[?_]":
            return f"{args[0]}[?{args[1]}]"
        case "!_" | "-_":
            return f"{node.function[0]}{args[0]}"
        case "@in":
            return f"{args[0]} in {args[1]}"
    if node.function.startswith("_") and node.function.endswith("_"):
        return f"{args[0]} {node.function.strip('_')} {args[1]}"
    return f"{node.function}({', '.join(map(spell, node.args))})"


def _literal(value: object, type_: Type) -> Literal:
    return Literal(value, type_, id=next(_IDS), at=0)


def _call(function: str, *args: Expr, target: Expr | None = None) -> CallNode:
    return CallNode(function, target, args, id=next(_IDS), at=0)


def _entry(key: Expr | str, value: Expr, optional: bool) -> MapEntryNode:
    return MapEntryNode(key, value, optional, id=next(_IDS), at=0)


NAMES = st.sampled_from(["a", "b", "foo", "_x", "x1"])
LITERALS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda value: _literal(value, INT)),
    st.integers(0, 2**64 - 1).map(lambda value: _literal(UInt(value), UINT)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: _literal(float(f"{value:e}"), DOUBLE)),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(lambda value: _literal(value, STRING)),
    st.binary(max_size=5).map(lambda value: _literal(value, BYTES)),
    st.sampled_from([_literal(True, BOOL), _literal(False, BOOL), _literal(None, NULL)]),
)


def _compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    lists = st.lists(inner, max_size=3)
    entries = st.builds(_entry, inner, inner, st.booleans())
    fields = st.builds(_entry, NAMES, inner, st.booleans())
    return st.one_of(
        st.builds(lambda operand, field, test: Select(operand, field, test, id=0, at=0), inner, NAMES, st.booleans()),
        st.builds(lambda name, left, right: _call(f"_{name}_", left, right), st.sampled_from(_BINARY), inner, inner),
        st.builds(lambda left, right: _call("@in", left, right), inner, inner),
        st.builds(lambda a, b, c: _call("_?_:_", a, b, c), inner, inner, inner),
        st.builds(_call, st.sampled_from(["_[_]", "_[?_]"]), inner, inner),
        st.builds(_call, st.sampled_from(["!_", "-_"]), inner.filter(_not_a_number)),
        st.builds(lambda name, args: _call(name, *args), NAMES, lists),
        st.builds(lambda name, target, args: _call(name, *args, target=target), NAMES, inner, lists),
        lists.map(lambda elements: ListOf(tuple(elements), id=0, at=0)),
        st.lists(entries, max_size=3).map(lambda found: MapOf(tuple(found), id=0, at=0)),
        st.builds(lambda name, found: StructNode(name, tuple(found), id=0, at=0), NAMES, st.lists(fields, max_size=3)),
    )


def _not_a_number(node: Expr) -> bool:
    return not isinstance(node, Literal)


TREES: st.SearchStrategy[Expr] = st.recursive(
    LITERALS | NAMES.map(lambda name: Ident(name, id=0, at=0)), _compound, max_leaves=12
)


@given(TREES)
def test_a_printed_expression_parses_to_itself(tree: Expr) -> None:
    """Parsing a printed expression returns the same expression."""
    assert parse(spell(tree), {**STANDARD}) == tree


ALL_MACROS = {**STANDARD, **TWO_VARIABLES, **OPTIONALS, **BINDINGS, **SORTING}
_PIECES = (
    "a self . ( ) [ ] { } , ? : ! - + && || in has all map 1 1u 1.5 'x' b'x' null true == < cel.bind optMap sortBy ` ="
)
PIECES = st.sampled_from([*_PIECES.split(), " ", "\n"])


@pytest.mark.slow
@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=25).map("".join)))
@example("a.b.c(" * 20)
@example("{?a: 1, ?b: }")
@settings(max_examples=300)
def test_no_text_breaks_the_parser(text: str) -> None:
    """Every text is an expression or a syntax error that says where."""
    failure = ""
    try:
        parse(text, ALL_MACROS)
    except CelCompileError as error:
        failure = str(error)
    assert not failure or failure.startswith("ERROR: <input>:")


@pytest.mark.parametrize("pair", [("(", ")"), ("[", "]"), ("f(", ")"), ("{1: ", "}"), ("a ? b : (", ")"), ("!(", ")")])
def test_depth_is_bounded(pair: tuple[str, str]) -> None:
    """Deep nesting is refused in the server's words, not by the end of Python's stack."""
    opening, closing = pair
    with pytest.raises(CelCompileError, match="expression recursion limit exceeded: 250"):
        parse(opening * 5000 + "1" + closing * 5000)


def test_long_chains_of_logic_stay_shallow() -> None:
    """``&&`` and ``||`` make balanced trees, so a thousand terms are not deep."""
    tree = parse(" && ".join(["a"] * 1000))

    def depth(node: Expr) -> int:
        return 1 + max(map(depth, node.args)) if isinstance(node, CallNode) else 1

    assert depth(tree) <= 12
    with pytest.raises(CelCompileError, match="max recursion depth exceeded"):
        parse(" + ".join(["a"] * (MAX_DEPTH + 2)))


def test_long_texts_are_refused() -> None:
    """Beyond the limit nothing is parsed."""
    with pytest.raises(CelCompileError, match="expression code point size exceeds limit: size: 100001, limit 100000"):
        parse(" " * 100_001)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '('"),
        ("1 +", "1:4: Syntax error: mismatched input '<EOF>'"),
        ("1 2", "1:3: Syntax error: extraneous input '2' expecting <EOF>"),
        ("f(1 2)", "1:5: Syntax error: extraneous input '2' expecting ')'"),
        ("(1", "1:3: Syntax error: missing ')' at '<EOF>'"),
        ("[1, 2", "1:6: Syntax error: mismatched input '<EOF>' expecting {']', ','}"),
        ("1 + * 2", "1:5: Syntax error: extraneous input '*'"),
        ("a.", "1:3: Syntax error: no viable alternative at input '.'"),
        ("f(", "1:3: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', ')', '.', '-', '!', 'true', "),
        ("a[", "1:3: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', '?', 'true', "),
        ("[", "1:2: Syntax error: mismatched input '<EOF>' expecting {'[', ']', '{', '(', '.', ',', '-', '!', '?', "),
        ("{", "1:2: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '}', '(', '.', ',', '-', '!', '?', "),
        ("f(1, ", "1:6: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', "),
        ("for", "1:1: reserved identifier: for"),
        ("9223372036854775808", "1:1: invalid int literal"),
        ("18446744073709551616u", "1:1: invalid uint literal"),
        ("9" * 5000, "1:1: invalid int literal"),
        ("0x" + "f" * 5000 + "u", "1:1: invalid uint literal"),
        ("has(a)", "1:5: invalid argument to has() macro"),
        ("[1].all(a.b, true)", "1:10: argument must be a simple name"),
        ("[1].map(1, true)", "1:9: argument is not an identifier"),
        ("[1].all(a, a, true)", "1:12: duplicate variable name: a"),
        ("1.optMap(1, true)", "1:10: optMap() variable name must be a simple identifier"),
        ("1.sortBy(e, e)", "1:1: sortBy can only be applied to"),
        ("cel.bind(1, 2, 3)", "1:10: cel.bind() variable names must be simple identifiers"),
        ("a.?null", "1:4: Syntax error: mismatched input 'null' expecting {IDENTIFIER, ESC_IDENTIFIER}"),
        ("a.`b`()", "1:6: Syntax error: mismatched input '(' expecting <EOF>"),
        ("[1 2]", "1:4: Syntax error: extraneous input '2' expecting {']', ','}"),
        ("[1 2 3]", "1:4: Syntax error: mismatched input '2' expecting {']', ','}"),
        ("[1,", "1:4: Syntax error: missing ']' at '<EOF>'"),
        ("[1,,2]", "1:4: Syntax error: mismatched input ',' expecting ']'"),
        ("[,1]", "1:3: Syntax error: extraneous input '1' expecting ']'"),
        ("a[1", "1:4: Syntax error: missing ']' at '<EOF>'"),
        ("a[1)", "1:4: Syntax error: mismatched input ')' expecting ']'"),
        ("(a[1)", "1:5: Syntax error: missing ']' at ')'"),
        ("f(1]", "1:4: Syntax error: mismatched input ']' expecting ')'"),
        ("a ? b)", "1:6: Syntax error: mismatched input ')' expecting ':'"),
        ("a ? b c : d", "1:7: Syntax error: extraneous input 'c' expecting ':'"),
        ("{1}", "1:3: Syntax error: mismatched input '}' expecting ':'"),
        ("{1 2}", "1:4: Syntax error: missing ':' at '2'"),
        ("{1: 2,", "1:7: Syntax error: missing '}' at '<EOF>'"),
        ("{1: 2 3: 4}", "1:7: Syntax error: mismatched input '3' expecting {'}', ','}"),
        ("A{", "1:3: Syntax error: mismatched input '<EOF>' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"),
        ("A{in: 1}", "1:3: Syntax error: mismatched input 'in' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"),
        ("A{?}", "1:4: Syntax error: mismatched input '}' expecting {IDENTIFIER, ESC_IDENTIFIER}"),
        ("A{a}", "1:4: Syntax error: mismatched input '}' expecting ':'"),
        ("A{a: 1 b: 2}", "1:8: Syntax error: mismatched input 'b' expecting {'}', ','}"),
        ("a.true", "1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER"),
        ("a. 1", "1:4: Syntax error: no viable alternative at input '. 1'"),
        ("a.in", "1:3: Syntax error: no viable alternative at input '.in'"),
        ("a.in", "1:5: Syntax error: mismatched input '<EOF>' expecting {'['"),
        ("..", "1:2: Syntax error: no viable alternative at input '..'"),
        (".null", "1:2: Syntax error: mismatched input 'null' expecting IDENTIFIER"),
        ("!", "1:2: Syntax error: extraneous input '<EOF>' expecting {'['"),
        ("! && a", "1:3: Syntax error: extraneous input '&&' expecting {'['"),
        ("a && -", "1:7: Syntax error: no viable alternative at input '-'"),
        ("-)", "1:2: Syntax error: mismatched input ')' expecting {'['"),
        ("for(1)", "1:1: reserved identifier: for"),
        ("b'\\u0041'", "1:1: unable to unescape string"),
        ("a" + ".b" * 251, "-1:0: max recursion depth exceeded"),
        ("1 + " * 251 + "1", "-1:0: max recursion depth exceeded"),
        ("a ? b : " * 250 + "c", "-1:0: expression recursion limit exceeded: 250"),
        (" " * 100001, "-1:0: expression code point size exceeds limit: size: 100001, limit 100000"),
    ],
)
def test_syntax_errors_have_cel_gos_text_and_position(text: str, message: str) -> None:
    """Syntax errors have cel-go's text and position."""
    with pytest.raises(CelCompileError) as caught:
        parse(text, ALL_MACROS)
    assert f"ERROR: <input>:{message}" in str(caught.value)


def test_the_place_is_shown_below_the_line() -> None:
    """Lines, tabs and wide characters keep the mark in its column."""
    with pytest.raises(CelCompileError) as caught:
        parse("1 +\n\t'ä' @ 2")
    assert str(caught.value).splitlines() == [
        "ERROR: <input>:2:6: Syntax error: token recognition error at: '@'",
        " |  'ä' @ 2",
        " | ..．..^",  # noqa: RUF001
        "ERROR: <input>:2:8: Syntax error: extraneous input '2' expecting <EOF>",
        " |  'ä' @ 2",
        " | ..．....^",  # noqa: RUF001
    ]


@pytest.mark.parametrize(
    "text", ["[,]", "{,}", "A{,}", "[1,]", "{1: 2,}", "A{a: 1,}", "a" + ".b" * 250, "{'if': 1}.if"]
)
def test_odd_but_right(text: str) -> None:
    """Commas at the end, even without elements; long chains; reserved words as fields."""
    parse(text)


@pytest.mark.parametrize(("text", "same"), [("-1", "- 1"), ("--1", "1"), ("!!a", "a"), ("1-1", "1 - 1"), ("(a)", "a")])
def test_a_minus_belongs_to_its_number_and_two_cancel(text: str, same: str) -> None:
    """A minus before a number is part of the literal, and two equal signs cancel each other."""
    assert parse(text) == parse(same)


@pytest.mark.parametrize(("text", "field"), [("a.`b`", "b"), ("a.`b-c/d.e f`", "b-c/d.e f"), ("a.`in`", "in")])
def test_names_in_backticks_are_fields(text: str, field: str) -> None:
    """A name in backticks selects a field with letters, digits and some punctuation."""
    parsed = parse(text, ALL_MACROS)
    assert isinstance(parsed, Select)
    assert parsed.field == field
