"""Values of expressions that are known without running the program. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import libcst as cst

from opsdk.errors import UsageError

__all__ = ["NotConstantError", "constants_of", "evaluate"]


class NotConstantError(Exception):
    """An expression has no value that is known without running the program."""


_NAMES = {"None": None, "True": True, "False": False}
_ENVIRON = ("os.environ.get", "environ.get", "os.getenv", "getenv")


def evaluate(node: cst.CSTNode, constants: Mapping[str, Any]) -> Any:
    """Return the value of an expression. Raises `NotConstantError`.

    The default of an environment variable counts as its value.

    Args:
        node: the expression.
        constants: values of names.
    """
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString) and node.evaluated_value is not None:
        return node.evaluated_value
    if isinstance(node, cst.Integer | cst.Float):
        return node.evaluated_value
    if isinstance(node, cst.Name | cst.Attribute):
        return _evaluate_name(node, constants)
    if isinstance(node, cst.FormattedString):
        return "".join(_evaluate_part(part, constants) for part in node.parts)
    if isinstance(node, cst.Tuple | cst.List):
        return _evaluate_sequence(node, constants)
    if isinstance(node, cst.Dict):
        return _evaluate_dict(node, constants)
    if isinstance(node, cst.Call):
        return _evaluate_environment(node, constants)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add | cst.Multiply):
        return _evaluate_operation(node, constants)
    raise NotConstantError


def _evaluate_name(node: cst.Name | cst.Attribute, constants: Mapping[str, Any]) -> Any:
    name = node.value if isinstance(node, cst.Name) else node.attr.value
    values = {**_NAMES, **constants}
    if name not in values:
        raise NotConstantError
    return values[name]


def _evaluate_part(part: cst.BaseFormattedStringContent, constants: Mapping[str, Any]) -> str:
    if isinstance(part, cst.FormattedStringText):
        return part.value
    if isinstance(part, cst.FormattedStringExpression) and part.format_spec is None and part.conversion is None:
        return str(evaluate(part.expression, constants))
    raise NotConstantError


def _evaluate_sequence(node: cst.Tuple | cst.List, constants: Mapping[str, Any]) -> Any:
    values = [evaluate(element.value, constants) for element in node.elements]
    return tuple(values) if isinstance(node, cst.Tuple) else values


def _evaluate_dict(node: cst.Dict, constants: Mapping[str, Any]) -> Any:
    values = {}
    for element in node.elements:
        if not isinstance(element, cst.DictElement):
            raise NotConstantError
        values[evaluate(element.key, constants)] = evaluate(element.value, constants)
    return values


def _evaluate_environment(node: cst.Call, constants: Mapping[str, Any]) -> Any:
    if dotted_name(node.func) not in _ENVIRON or len(node.args) != 2:
        raise NotConstantError
    return evaluate(node.args[1].value, constants)


def _evaluate_operation(node: cst.BinaryOperation, constants: Mapping[str, Any]) -> Any:
    first, second = evaluate(node.left, constants), evaluate(node.right, constants)
    if isinstance(node.operator, cst.Add) and isinstance(first, str) and isinstance(second, str):
        return first + second
    if isinstance(first, int | float) and isinstance(second, int | float):
        return first + second if isinstance(node.operator, cst.Add) else first * second
    raise NotConstantError


def dotted_name(node: cst.CSTNode) -> str:
    """Return the dotted name of an expression; empty if it is not one."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (prefix := dotted_name(node.value)):
        return f"{prefix}.{node.attr.value}"
    return ""


def constants_of(module: cst.Module, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constants that a module, or a class in it, assigns once.

    Args:
        module: the module.
        known: constants of other modules.
    """
    values: dict[str, Any] = {}
    assigned: set[str] = set()
    for target, value in _assignments(module.body):
        if target in assigned:
            values.pop(target, None)
            continue
        assigned.add(target)
        try:
            values[target] = evaluate(value, {**known, **values})
        except NotConstantError:
            continue
    return values


def _assignments(body: Iterable[cst.CSTNode]) -> Iterable[tuple[str, cst.BaseExpression]]:
    for statement in body:
        if isinstance(statement, cst.ClassDef):
            yield from _assignments(statement.body.body)
        elif isinstance(statement, cst.SimpleStatementLine):
            for part in statement.body:
                if isinstance(part, cst.Assign) and len(part.targets) == 1:
                    if isinstance(name := part.targets[0].target, cst.Name):
                        yield name.value, part.value
                elif isinstance(part, cst.AnnAssign) and part.value is not None and isinstance(part.target, cst.Name):
                    yield part.target.value, part.value


def parse(text: str, file: str) -> cst.Module:
    """Return the syntax tree of a file. Raises `UsageError` with file and line."""
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise UsageError(f"{file}:{error.raw_line}: {error.message}: repair the file first") from error
