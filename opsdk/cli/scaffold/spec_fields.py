"""The fields of a spec, as tests of a scaffold pass them. Read from the source: the class may not load yet. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_LITERALS = {"str": '"changed"', "int": "1", "float": "1.0", "bool": "True"}
_EMPTY = {"list": "[]", "Sequence": "[]", "tuple": "()", "set": "set()", "dict": "{}", "Mapping": "{}"}


def spec_arguments(source: str, kind: str, *, changes: bool = False) -> str:
    """Return the arguments that the class of a kind's spec needs. ``...`` stands for a value that no type tells.

    Args:
        source: of the module of the kind.
        kind: whose spec has the name of the kind with ``Spec``.
        changes: set a field that has a default too, if one is a plain value.

    >>> module = "class SiteSpec(Model): host: str; size: Annotated[int, Meta(ge=1)] = 3; on: bool = True"
    >>> spec_arguments(module, "Site"), spec_arguments(module, "Site", changes=True)
    ('host="changed"', 'host="changed", size=1')
    """
    arguments, changed = [], False
    for name, annotation, default in _fields(source, f"{kind}Spec"):
        literal = _literal(annotation)
        if default is None:
            arguments.append(f"{name}={literal or '...'}")
        elif changes and not changed and literal in _LITERALS.values() and literal != ast.unparse(default):
            changed = True
            arguments.append(f"{name}={literal}")
    return ", ".join(arguments)


def _fields(source: str, class_name: str) -> Iterator[tuple[str, ast.expr, ast.expr | None]]:
    """Yield name, type and default of the fields of a class; none if the module does not have it."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ClassDef) and statement.name == class_name:
            for field in statement.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and not _is_constant(field):
                    yield field.target.id, field.annotation, field.value


def _is_constant(field: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.unparse(field.annotation)


def _literal(annotation: ast.expr) -> str:
    """Return the text of a value of a type; empty for types that are not known here."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        return _literal(annotation.left)
    if isinstance(annotation, ast.Subscript):
        form = ast.unparse(annotation.value).rpartition(".")[2]
        first = annotation.slice.elts[0] if isinstance(annotation.slice, ast.Tuple) else annotation.slice
        if form == "Literal":
            return ast.unparse(first)
        return _literal(first) if form in ("Annotated", "Optional") else _EMPTY.get(form, "")
    name = ast.unparse(annotation)
    return _LITERALS.get(name) or _EMPTY.get(name, "")
