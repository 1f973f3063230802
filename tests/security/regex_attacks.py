"""Finds the regular expressions of a package, and derives from each the strings that could make it slow.

`find_expressions` reads the syntax trees of all modules. It evaluates each pattern in its module; a pattern that is a
parameter of its function takes the values of the calls in the module. `attacks` repeats what each repetition of a
pattern accepts, behind a text that reaches the repetition, before a tail that does not match. `slow_attack` raises the
length until a run is expensive, so that exponential patterns end the test too.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from re import _constants as opcodes
from re import _parser as sre

ROOT = Path(__file__).resolve().parents[2]
_METHODS = frozenset(["match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"])
_ATTRIBUTE = re.compile(rf"\bre\.|\.(?:{'|'.join(sorted(_METHODS))})\b")
_LENGTHS = (8, 12, 16, 20, 24, 28, 32, 48, 128, 1024, 4096, 16384)
_EXPENSIVE = 0.02
"""Seconds of CPU that a linear pattern never needs for `_LENGTHS` characters: it needs about a fiftieth."""
_SAMPLES = 3
_TAILS = ("", "\x00", "!", "\n", "é")


@dataclass(frozen=True, slots=True)
class Expression:
    """A regular expression in the source, and the methods by which it is applied."""

    module: str
    line: int
    pattern: str | bytes
    flags: int
    methods: frozenset[str]

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {'/'.join(sorted(self.methods))} {self.pattern!r}"


@dataclass
class Findings:
    """All expressions, and the places whose pattern is not a constant."""

    expressions: list[Expression] = field(default_factory=list)
    unresolved: list[tuple[str, str]] = field(default_factory=list)


def find_expressions(*packages: str) -> Findings:
    """Return the expressions of all modules below `packages`; generated kinds have none."""
    findings = Findings()
    paths = (path for package in packages for path in sorted((ROOT / package).rglob("*.py")))
    # Six modules of seven have no such attribute, and are not parsed.
    trees = {path: ast.parse(text) for path in paths if _ATTRIBUTE.search(text := path.read_text())}
    public = _methods_by_name(trees.values())
    for path, tree in trees.items():
        own = _methods_by_name([tree])
        methods = {name: own.get(name, set()) if name.startswith("_") else used for name, used in public.items()}
        calls = [node for node in ast.walk(tree) if _is_regex_call(node)]
        if calls:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            _read_module(name, tree, calls, methods, findings)
    return findings


def _is_regex_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and (node.func.attr in _METHODS or node.func.attr == "compile")
    )


def _methods_by_name(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Return the methods that any module calls on a name, such as ``fullmatch`` on ``_FORM``."""
    methods: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in _METHODS:
                owner = node.value
                name = (
                    owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
                )
                methods.setdefault(name, set()).add(node.attr)
    return methods


def _read_module(
    name: str, tree: ast.Module, calls: list[ast.AST], methods: dict[str, set[str]], findings: Findings
) -> None:
    namespace = vars(importlib.import_module(name))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for call in calls:
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Attribute)
        used = {call.func.attr} if call.func.attr != "compile" else _methods_of_compiled(call, parents, methods)
        flags = _flags(call, namespace)
        values = list(_values(call.args[0], call, tree, parents, namespace))
        if not values:
            findings.unresolved.append((name, ast.unparse(call)))
        for value in values:
            pattern, more = (value.pattern, value.flags) if isinstance(value, re.Pattern) else (value, 0)
            # The flag of text patterns is not allowed for bytes, and the default otherwise.
            combined = (flags | more) & ~re.UNICODE.value
            findings.expressions.append(Expression(name, call.lineno, pattern, combined, frozenset(used)))


def _methods_of_compiled(call: ast.Call, parents: dict[ast.AST, ast.AST], methods: dict[str, set[str]]) -> set[str]:
    parent = parents[call]
    if isinstance(parent, ast.Attribute) and parent.attr in _METHODS:
        return {parent.attr}
    targets = (
        parent.targets
        if isinstance(parent, ast.Assign)
        else [parent.target]
        if isinstance(parent, ast.AnnAssign)
        else []
    )
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return {method for name in names for method in methods.get(name, ())} or {"match", "fullmatch"}


def _flags(call: ast.Call, namespace: dict[str, object]) -> int:
    position = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(call.func.attr, 2)  # type: ignore[attr-defined]
    node = next((word.value for word in call.keywords if word.arg == "flags"), None)
    node = node or (call.args[position] if len(call.args) > position else None)
    return int(_evaluate(node, namespace)) if node is not None else 0  # type: ignore[call-overload]


def _evaluate(node: ast.expr, namespace: dict[str, object]) -> object:
    return eval(compile(ast.Expression(node), "<pattern>", "eval"), {"re": re, **namespace})


def _values(
    node: ast.expr, call: ast.AST, tree: ast.Module, parents: dict[ast.AST, ast.AST], namespace: dict[str, object]
) -> Iterator[str | bytes | re.Pattern[str] | re.Pattern[bytes]]:
    function: ast.AST | None = call
    while function is not None and not isinstance(function, ast.FunctionDef):
        function = parents.get(function)
    parameters = [argument.arg for argument in function.args.args] if isinstance(function, ast.FunctionDef) else []
    if isinstance(node, ast.Name) and node.id in parameters:
        position = parameters.index(node.id)
        for other in ast.walk(tree):
            if isinstance(other, ast.Call) and isinstance(other.func, ast.Name) and other.func.id == function.name:  # type: ignore[union-attr]
                yield from _values(other.args[position], other, tree, parents, namespace)
        return
    for names in _bindings(call, parents, namespace):
        try:
            value = _evaluate(node, {**namespace, **names})
        except NameError:
            continue
        if isinstance(value, str | bytes | re.Pattern):
            yield value


def _bindings(
    node: ast.AST | None, parents: dict[ast.AST, ast.AST], namespace: dict[str, object]
) -> Iterator[dict[str, object]]:
    """Yield the values of the loop variables around a call, where the loop is over a constant; at least one dict."""
    yield {}
    while node is not None:
        loops = getattr(node, "generators", [node] if isinstance(node, ast.For) else [])
        for loop in loops:
            try:
                for value in _evaluate(loop.iter, namespace):  # type: ignore[attr-defined]
                    yield dict(_assigned(loop.target, value))
            except NameError:
                continue
        node = parents.get(node)


def _assigned(target: ast.expr, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, tuple):
        for part, part_value in zip(target.elts, value, strict=True):
            yield from _assigned(part, part_value)


# ------------------------------------------------------------------ attacks
def attacks(expression: Expression) -> Iterator[tuple[str, str, str]]:
    """Yield prefix, repeated text and tail; in Latin-1 for patterns of bytes."""
    tree = sre.parse(expression.pattern, expression.flags)
    pumps = set(_pumps(list(tree), ""))
    words = {pump for _, pump in pumps}
    letters = sorted({char for word in words for char in word})[:12]
    # Repetitions that follow each other share characters: pump each character behind each prefix.
    prefixes = {"", *(prefix for prefix, _ in pumps)}
    pumps |= {(prefix, char) for prefix in prefixes for char in letters}
    # A search begins again behind each beginning that leads nowhere.
    pumps |= {("", prefix + word) for prefix, word in pumps if prefix}
    pumps |= {("", a + b) for a, b in product(letters[:6], repeat=2) if a != b}
    for prefix, pump in sorted(pumps):
        for tail in _TAILS:
            yield prefix, pump, tail


def _pumps(items: list[tuple[object, object]], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield a text that reaches each unbounded repetition, and a text that it repeats."""
    for operator, argument in items:
        match operator:
            case opcodes.MAX_REPEAT | opcodes.MIN_REPEAT | opcodes.POSSESSIVE_REPEAT:
                _, most, body = argument  # type: ignore[misc]
                if most > 64:
                    for example in _examples(list(body)):
                        yield prefix, example
                yield from _pumps(list(body), prefix)
            case opcodes.SUBPATTERN:
                yield from _pumps(list(argument[3]), prefix)  # type: ignore[index]
            case opcodes.ATOMIC_GROUP:
                yield from _pumps(list(argument), prefix)  # type: ignore[call-overload]
            case opcodes.BRANCH:
                for branch in argument[1]:  # type: ignore[index]
                    yield from _pumps(list(branch), prefix)
            case opcodes.ASSERT | opcodes.ASSERT_NOT:
                yield from _pumps(list(argument[1]), prefix)  # type: ignore[index]
        prefix += next(iter(_example_of(operator, argument)), "")


def _examples(items: list[tuple[object, object]]) -> list[str]:
    """Return a few texts that a sequence accepts, each of at least one character."""
    parts = [_example_of(operator, argument)[:_SAMPLES] or [""] for operator, argument in items]
    texts = ["".join(parts_of_text) for parts_of_text in product(*parts[:6])][: _SAMPLES * _SAMPLES]
    return [text for text in texts if text]


def _example_of(operator: object, argument: object) -> list[str]:
    match operator:
        case opcodes.LITERAL:
            return [chr(argument)]  # type: ignore[arg-type]
        case opcodes.NOT_LITERAL:
            return [char for char in "a 0\\" if ord(char) != argument]
        case opcodes.ANY:
            return ["a", " ", "\\"]
        case opcodes.IN:
            return _members(argument)  # type: ignore[arg-type]
        case opcodes.MAX_REPEAT | opcodes.MIN_REPEAT | opcodes.POSSESSIVE_REPEAT:
            least, _, body = argument  # type: ignore[misc]
            examples = _examples(list(body))
            return [example * max(least, 1) for example in examples] if least else ["", *examples]
        case opcodes.SUBPATTERN:
            return _examples(list(argument[3]))  # type: ignore[index]
        case opcodes.ATOMIC_GROUP:
            return _examples(list(argument))  # type: ignore[call-overload]
        case opcodes.BRANCH:
            return [text for branch in argument[1] for text in _examples(list(branch))[:1]]  # type: ignore[index]
    return []


_PROBES = "a0 A-._/\\\"'=,;:+%![]()<>{}\t\n\r\x01\x7f\xe9&$#@?*|^`~"


def _members(argument: list[tuple[object, object]]) -> list[str]:
    """Return characters of a class: the first of each range, and of each category."""
    negated = argument[0][0] is opcodes.NEGATE
    pattern = re.compile(_class_text(argument), re.DOTALL)
    probes = [char for char in _PROBES if pattern.fullmatch(char)]
    first = (
        []
        if negated
        else [chr(value[0] if kind is opcodes.RANGE else value) for kind, value in argument if kind in _CODES]
    )  # type: ignore[arg-type,index]
    return list(dict.fromkeys([*probes[:2], *first[:2], *probes[2:]]))


_CODES = frozenset([opcodes.LITERAL, opcodes.RANGE])
_CATEGORIES = {
    opcodes.CATEGORY_DIGIT: r"\d",
    opcodes.CATEGORY_NOT_DIGIT: r"\D",
    opcodes.CATEGORY_SPACE: r"\s",
    opcodes.CATEGORY_NOT_SPACE: r"\S",
    opcodes.CATEGORY_WORD: r"\w",
    opcodes.CATEGORY_NOT_WORD: r"\W",
}


def _class_text(argument: list[tuple[object, object]]) -> str:
    text = ""
    for kind, value in argument:
        match kind:
            case opcodes.NEGATE:
                text += "^"
            case opcodes.LITERAL:
                text += re.escape(chr(value))  # type: ignore[arg-type]
            case opcodes.RANGE:
                text += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"  # type: ignore[index]
            case opcodes.CATEGORY:
                text += _CATEGORIES[value]  # type: ignore[index]
    return f"[{text}]"


# ------------------------------------------------------------------ measuring
def slow_attack(expression: Expression) -> str:
    """Return the attack for which the expression is not linear, or an empty string."""
    compiled = re.compile(expression.pattern, expression.flags)
    for prefix, pump, tail in attacks(expression):
        for method in sorted(expression.methods):
            if _grows(compiled, method, prefix, pump, tail):
                return f"{method} of {prefix!r} + {pump!r} * n + {tail!r}"
    return ""


def _grows(compiled: re.Pattern[str] | re.Pattern[bytes], method: str, prefix: str, pump: str, tail: str) -> bool:
    previous = 0.0
    for length in _LENGTHS:
        text = prefix + pump * max(length // len(pump), 1) + tail
        seconds = min(_seconds(compiled, method, text) for _ in range(1 if previous < _EXPENSIVE / 8 else 3))
        if seconds > _EXPENSIVE:
            seconds = min(seconds, *(_seconds(compiled, method, text) for _ in range(2)))
        if seconds > _EXPENSIVE:
            return True
        previous = seconds
    return False


def _seconds(compiled: re.Pattern[str] | re.Pattern[bytes], method: str, text: str) -> float:
    subject: str | bytes = text if isinstance(compiled.pattern, str) else text.encode("latin-1", "replace")
    start = time.process_time()
    match method:
        case "sub" | "subn":
            compiled.sub("" if isinstance(subject, str) else b"", subject)  # type: ignore[arg-type]
        case "finditer":
            for _ in compiled.finditer(subject):  # type: ignore[arg-type]
                pass
        case _:
            getattr(compiled, method)(subject)
    return time.process_time() - start
