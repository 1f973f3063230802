"""How the generated code calls a handler: its arguments, its filters, its options. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import libcst as cst
import libcst.matchers as m

from opsdk.cli.migrate.model import ACTIVITIES, CHANGES, HandlerKind, KopfHandler

__all__ = ["HandlerCode"]

_LINE: Final = 120
_OBJECT: Final = (
    "body meta spec status name namespace uid labels annotations logger memo patch".split()  # noqa: SIM905 - the words of kopf's documentation
)
_CHANGE: Final = ("old", "new", "diff", "reason")
_PROGRESS: Final = ("retry", "started", "runtime")
_FILTERS: Final = ("labels", "annotations", "when")
_CALL_OPTIONS: Final = ("retries", "timeout", "backoff")
_READ: Final = frozenset({"id", "param", "field", "value", "old", "new", "errors", *_FILTERS})


def quoted(text: str) -> str:
    """Return a string literal with double quotes."""
    return json.dumps(text, ensure_ascii=False)


def call_code(function: str, words: Sequence[str], indent: int) -> str:
    """Return the code of a call. A call that is longer than a line has an argument on each line."""
    margin = " " * indent
    line = f"{margin}{function}({', '.join(words)})"
    if len(line) <= _LINE:
        return line
    return "\n".join([f"{margin}{function}(", *(f"{margin}    {word}," for word in words), f"{margin})"])


class HandlerCode:
    """The code that calls one handler.

    Args:
        handler: the handler.
        reference: returns the code for a name of the handler's module.
        call: name of the variable with the call.
    """

    def __init__(self, handler: KopfHandler, reference: Callable[[str, str], str], call: str) -> None:
        self.handler, self._reference, self._call = handler, reference, call
        self.unknown: list[str] = []
        """Parameters whose value is not known."""

    # -------------------------------------------------------------- names
    @property
    def function(self) -> str:
        """The code for the function."""
        return self._reference(self.handler.module, self.handler.function)

    def option(self, name: str) -> str:
        """Return the code of an option, with names of its module."""
        code = self.handler.options.get(name, "None")
        qualified: Any = cst.parse_expression(code).visit(_Qualifier(self.handler.module, self._reference))
        return cst.Module([]).code_for_node(qualified)

    @property
    def _field(self) -> str:
        return f"{self._call}.field({self.option('field')})" if "field" in self.handler.options else ""

    # -------------------------------------------------------------- the call
    def statement(self, indent: int) -> str:
        """Return the statement that calls the handler, on several lines if it is long."""
        words = [quoted(self.handler.id), self.function, *self._options(), *self._arguments(indent + 4)]
        return call_code(f"await {self._call}.call", words, indent)

    def _options(self) -> list[str]:
        words = []
        if self.handler.kind is HandlerKind.EVENT:
            words.append('errors="ignored"')
        elif "errors" in self.handler.options:
            words.append(f"errors={self.option('errors')}")
        if self.handler.kind in CHANGES:
            words += [f"{name}={self.option(name)}" for name in _CALL_OPTIONS if name in self.handler.options]
        return words

    def _arguments(self, indent: int) -> list[str]:
        codes = self._known()
        values: dict[str, str] = {}
        for name, has_default in self.handler.parameters.items():
            if name in codes:
                values[name] = codes[name]
            elif not has_default:
                self.unknown.append(name)
                values[name] = f'kopf_handlers.not_migrated("the argument {name}")'
        if not self.handler.passes_everything:
            return [f"{name}={code}" for name, code in values.items()]
        common = {*_OBJECT, *(_CHANGE if self.handler.kind in CHANGES and not self._field else ())}
        extra = [f"{quoted(name)}: {code}" for name, code in {**codes, **values}.items() if name not in common]
        members = [f"**{self._call}.arguments()", *extra]
        line = f"**{{{', '.join(members)}}}"
        if indent + len(line) < _LINE:
            return [line]
        margin = " " * indent
        return ["\n".join(["**{", *(f"{margin}    {member}," for member in members), f"{margin}}}"])]

    def _known(self) -> dict[str, str]:
        """Return the code of each argument that kopf passes to this handler."""
        call, handler = self._call, self.handler
        codes = {name: f"{call}.{name}" for name in _OBJECT}
        codes |= {name: f"{call}.{name}({quoted(handler.id)})" for name in _PROGRESS}
        codes["param"] = self.option("param")
        if handler.kind in CHANGES:
            source = self._field or call
            codes |= {name: f"{source}.{name}" for name in ("old", "new", "diff")}
            codes["reason"] = f"{call}.reason"
        if handler.kind is HandlerKind.EVENT:
            codes |= {name: f"{call}.{name}" for name in ("event", "type")}
        if handler.kind is HandlerKind.DAEMON:
            codes["stopped"] = f"{call}.stopped" if handler.is_async else f"{call}.blocking_stopped"
        return codes

    # -------------------------------------------------------------- conditions
    def condition(self) -> str:
        """Return the condition of the call; empty if there is none."""
        parts = [part for part in (self._reason(), self._filter()) if part]
        return " and ".join(parts)

    def _reason(self) -> str:
        changed = f"{self._field}.is_changed"
        reasons = {
            HandlerKind.CREATE: f"{self._call}.is_create",
            HandlerKind.UPDATE: f"{self._call}.is_update",
            HandlerKind.RESUME: f"{self._call}.is_resume",
            HandlerKind.FIELD: changed,
        }
        reason = reasons.get(self.handler.kind, "")
        return f"{reason} and {changed}" if self.handler.kind is HandlerKind.UPDATE and self._field else reason

    def watched(self) -> str:
        """Return the condition under which kopf keeps a record for this handler; empty if it always does."""
        words = [f"{name}={self.option(name)}" for name in _FILTERS if name in self.handler.options]
        parts = [f"{self._call}.matches({', '.join(words)})"] if words else []
        if self._field:
            value = f"value={self.option('value')}" if "value" in self.handler.options else ""
            parts.append(f"{self._field}.matches({value})")
        return " and ".join(parts)

    def _filter(self) -> str:
        words = [f"{name}={self.option(name)}" for name in _FILTERS if name in self.handler.options]
        parts = []
        if self._field:
            values = [f"{name}={self.option(name)}" for name in ("value", "old", "new") if name in self.handler.options]
            if self.handler.kind in CHANGES:
                parts.append(f"{self._field}.matches({', '.join(values)})")
            else:
                words += [f"field={self.option('field')}", *values]
        if words:
            parts.append(f"{self._call}.matches({', '.join(words)})")
        return " and ".join(parts)

    def ignored_options(self, used: Mapping[str, str]) -> list[str]:
        """Return the options that neither this call nor `used` takes over."""
        taken = _READ | used.keys()
        if self.handler.kind in CHANGES:
            taken |= set(_CALL_OPTIONS)
        if self.handler.kind in ACTIVITIES:
            taken = frozenset({"id", "param"})
        return [name for name in self.handler.options if name not in taken]


class _Qualifier(cst.CSTTransformer):
    """Adds the module to names that it binds."""

    def __init__(self, module: str, reference: Callable[[str, str], str]) -> None:
        super().__init__()
        self._module, self._reference = module, reference
        self._own: list[set[str]] = []

    def visit_Lambda(self, node: cst.Lambda) -> None:
        names = [cst.ensure_type(each, cst.Param).name.value for each in m.findall(node.params, m.Param())]
        self._own.append(set(names))

    def leave_Lambda(self, original_node: cst.Lambda, updated_node: cst.Lambda) -> cst.Lambda:
        self._own.pop()
        return updated_node

    def visit_Param(self, node: cst.Param) -> bool:
        return False

    def visit_Arg_keyword(self, node: cst.Arg) -> None: ...

    def visit_Attribute_attr(self, node: cst.Attribute) -> None: ...

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if any(updated_node.value in names for names in self._own):
            return updated_node
        return cst.parse_expression(self._reference(self._module, updated_node.value))
