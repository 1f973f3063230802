"""Reads one module of a kopf operator, and writes it without kopf. Pure.

Handlers become plain functions; the generated reconcilers call them. Formatting and comments stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import libcst as cst
import libcst.matchers as m
from libcst import metadata as md

from opsdk.cli.migrate.constants import NotConstantError, dotted_name, evaluate
from opsdk.cli.migrate.kinds import parse_selector
from opsdk.cli.migrate.model import (
    ACTIVITIES,
    RESOURCES,
    HandlerKind,
    KopfHandler,
    MigrationFinding,
    MigrationVerdict,
    ResourceSelector,
    SourceModule,
)
from opsdk.cli.migrate.names import EVENT_TYPES, NAMES, RETRY_ERRORS, SETTINGS_ADVICE, TYPES, advice_for

__all__ = ["read_module"]

_DECORATORS: Final = {
    **{f"kopf.{kind.value}": kind for kind in HandlerKind},
    "kopf.on.timer": HandlerKind.TIMER,
    "kopf.on.daemon": HandlerKind.DAEMON,
    "kopf.on.index": HandlerKind.INDEX,
    "kopf.on.subhandler": HandlerKind.SUBHANDLER,
    "kopf.on.this": HandlerKind.SUBHANDLER,
}
_SELECTOR_OPTIONS: Final = ("group", "version", "kind", "plural", "singular", "shortcut", "category")
_BLOCKING: Final = ("kubernetes", "pykube", "requests", "urllib3", "boto3", "psycopg2", "pymysql")
_TODO: Final = "TODO(migrate)"


def read_module(module: cst.Module, *, name: str, file: str, constants: Mapping[str, Any]) -> SourceModule:
    """Return a module without kopf, with its handlers and what is to be reported.

    Args:
        module: its syntax tree.
        name: with dots, relative to the operator's folder.
        file: relative to the operator's folder.
        constants: values of names.
    """
    wrapper = md.MetadataWrapper(module)
    source = SourceModule(name=name, file=file, text="", top_names=frozenset(_top_names(module)))
    written = wrapper.visit(_Reader(source, constants))
    source.text = written.code
    return source


def _top_names(module: cst.Module) -> Iterable[str]:
    """Yield the names that a module binds at its top level."""
    for name in m.findall(module, m.ImportAlias()):
        alias = cst.ensure_type(name, cst.ImportAlias)
        yield alias.evaluated_alias or alias.evaluated_name.partition(".")[0]
    for statement in module.body:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            yield statement.name.value
        elif isinstance(statement, cst.SimpleStatementLine):
            for target in m.findall(statement, m.AssignTarget() | m.AnnAssign()):
                yield from (cst.ensure_type(each, cst.Name).value for each in m.findall(target.target, m.Name()))  # type: ignore[attr-defined] # both have a target


class _Reader(cst.CSTTransformer):
    """Migrates one module.

    Args:
        source: collects handlers and findings.
        constants: values of names.
    """

    METADATA_DEPENDENCIES = (
        md.ExpressionContextProvider,
        md.ParentNodeProvider,
        md.PositionProvider,
        md.QualifiedNameProvider,
    )

    def __init__(self, source: SourceModule, constants: Mapping[str, Any]) -> None:
        super().__init__()
        self._source, self._constants = source, constants
        self._scopes: list[cst.FunctionDef | cst.ClassDef] = []
        self._decorators: set[int] = set()
        self._unknown = 0
        """Number of names of kopf without a counterpart so far."""
        self._unknown_before: list[int] = []
        self._has_imports = False

    # -------------------------------------------------------------- helpers
    def _line(self, node: cst.CSTNode) -> int:
        return int(self.get_metadata(md.PositionProvider, node).start.line)

    def _kopf_name(self, node: cst.CSTNode) -> str:
        """Return the name of kopf that an expression is; empty if it is none."""
        names = self.get_metadata(md.QualifiedNameProvider, node, set())
        return next(
            (
                each.name
                for each in names
                if each.source is md.QualifiedNameSource.IMPORT and each.name.startswith("kopf.")
            ),
            "",
        )

    def _report(self, node: cst.CSTNode, what: str, verdict: MigrationVerdict, became: str) -> None:
        self._source.findings.append(
            MigrationFinding(file=self._source.file, line=self._line(node), what=what, verdict=verdict, became=became)
        )

    @property
    def _functions(self) -> list[cst.FunctionDef]:
        return [scope for scope in self._scopes if isinstance(scope, cst.FunctionDef)]

    # -------------------------------------------------------------- imports
    def visit_Import(self, node: cst.Import) -> bool:
        self._report_clients(node, [alias.evaluated_name for alias in node.names])
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        self._report_clients(node, [dotted_name(node.module) if node.module is not None else ""])
        return False

    def _report_clients(self, node: cst.CSTNode, names: Sequence[str]) -> None:
        for name in names:
            if name.partition(".")[0] in _BLOCKING:
                advice = "kept: it blocks, so handlers without async run in threads; add its permissions to rbac=[...]"
                self._report(node, f"import {name}", MigrationVerdict.CHECK, advice)

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> Any:
        remaining = [alias for alias in updated_node.names if alias.evaluated_name.partition(".")[0] != "kopf"]
        if len(remaining) == len(updated_node.names):
            return updated_node
        self._has_imports = True
        if remaining:
            remaining[-1] = remaining[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return updated_node.with_changes(names=remaining)
        return cst.RemoveFromParent()

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> Any:
        module = dotted_name(updated_node.module) if updated_node.module is not None else ""
        if updated_node.relative or module.partition(".")[0] != "kopf":
            return updated_node
        self._has_imports = True
        return cst.RemoveFromParent()

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        if not self._has_imports:
            return updated_node
        position = _first_import(updated_node.body)
        blank = "\n" if position else ""
        added = cst.parse_module(f"{blank}import opsdk\nfrom opsdk.migration import kopf_handlers\n").body
        body = [*updated_node.body[:position], *added, *updated_node.body[position:]]
        return updated_node.with_changes(body=body)

    # -------------------------------------------------------------- names
    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return not self._kopf_name(node)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return self._renamed(original_node, updated_node)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        parent = self.get_metadata(md.ParentNodeProvider, original_node)
        if isinstance(parent, cst.Attribute | cst.FunctionDef | cst.ClassDef | cst.Param | cst.NameItem) or (
            isinstance(parent, cst.Arg) and parent.keyword is original_node
        ):
            return updated_node
        return self._renamed(original_node, updated_node)

    def _renamed(self, node: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        name = self._kopf_name(node)
        if not name or id(node) in self._decorators:
            return updated
        if (counterpart := NAMES.get(name) or TYPES.get(name)) is not None:
            return cst.parse_expression(counterpart)
        if self._is_annotation(node):
            return cst.Name("object")
        self._unknown += 1
        if not self._runs_later(node):
            if isinstance(self.get_metadata(md.ParentNodeProvider, node), cst.Decorator):
                return updated
            self._report(node, name, MigrationVerdict.BY_HAND, self._advice(name))
            return cst.Name("object" if self._is_base(node) else "None")
        self._report(node, name, MigrationVerdict.BY_HAND, f"raises NotImplementedError: {self._advice(name)}")
        return cst.parse_expression(f'kopf_handlers.not_migrated("{name}")')

    @staticmethod
    def _advice(name: str) -> str:
        """Return what to do by hand for a name that is not a decorator."""
        if name in _DECORATORS:
            return f"write @{name}(...) above the function, and migrate again: a call registers this handler"
        return advice_for(name)

    def _runs_later(self, node: cst.CSTNode) -> bool:
        """Whether an expression is evaluated in a call or in a program, not when the module is imported."""
        if self._is_main(node):
            return True
        count = len(self._functions)
        parent: Any = node
        while count and not isinstance(parent, cst.FunctionDef | cst.Module):
            parent = self.get_metadata(md.ParentNodeProvider, parent)
            if isinstance(parent, cst.Decorator | cst.Parameters):
                return count > 1
        return bool(count)

    def _is_annotation(self, node: cst.CSTNode) -> bool:
        parent: cst.CSTNode | None = node
        while parent is not None and not isinstance(parent, cst.BaseStatement | cst.BaseSmallStatement):
            parent = self.get_metadata(md.ParentNodeProvider, parent, None)
            if isinstance(parent, cst.Annotation):
                return True
        return False

    def _is_base(self, node: cst.CSTNode) -> bool:
        parent = self.get_metadata(md.ParentNodeProvider, node)
        return isinstance(parent, cst.Arg) and isinstance(
            self.get_metadata(md.ParentNodeProvider, parent), cst.ClassDef
        )

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        name = self._kopf_name(original_node.func)
        if (event_type := EVENT_TYPES.get(name)) is not None:
            argument = cst.ensure_type(cst.parse_expression(f'f(type="{event_type}")'), cst.Call).args[0]
            return updated_node.with_changes(args=[*updated_node.args, argument])
        if name in RETRY_ERRORS and len(updated_node.args) == 2 and updated_node.args[1].keyword is None:
            equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
            delay = updated_node.args[1].with_changes(keyword=cst.Name("delay"), equal=equal)
            return updated_node.with_changes(args=[updated_node.args[0], delay])
        return updated_node

    # -------------------------------------------------------------- statements
    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> bool:
        self._unknown_before.append(self._unknown)
        return not self._is_setting(node)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        before = self._unknown_before.pop()
        if self._is_setting(original_node):
            return self._migrate_setting(original_node, updated_node)
        if self._functions or self._unknown == before or self._is_main(original_node):
            return updated_node
        code = cst.Module([original_node.with_changes(leading_lines=())]).code.strip().splitlines()[0]
        replaced: Sequence[cst.BaseSmallStatement] = [cst.Pass()]
        if isinstance(statement := updated_node.body[0], cst.Assign):
            replaced = [statement.with_changes(value=cst.Name("None"))]
        return updated_node.with_changes(body=replaced, trailing_whitespace=_comment(f"{_TODO}: {code}"))

    def _is_main(self, node: cst.CSTNode) -> bool:
        """Whether a statement runs only if the file is the program."""
        parent: Any = node
        while (parent := self.get_metadata(md.ParentNodeProvider, parent, None)) is not None:
            if isinstance(parent, cst.If) and "__main__" in cst.Module([]).code_for_node(parent.test):
                return True
        return False

    def _is_setting(self, node: cst.SimpleStatementLine) -> bool:
        """Whether a statement changes ``settings`` in a startup handler."""
        function = self._functions[-1] if self._functions else None
        if function is None or not any(self._handler_kind(each) is HandlerKind.STARTUP for each in function.decorators):
            return False
        statement = node.body[0]
        return (
            isinstance(statement, cst.Assign)
            and len(statement.targets) == 1
            and dotted_name(statement.targets[0].target).startswith("settings.")
        )

    def _migrate_setting(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        statement = cst.ensure_type(original.body[0], cst.Assign)
        target = dotted_name(statement.targets[0].target)
        code = " ".join(cst.Module([original.with_changes(leading_lines=())]).code.split())
        problem = self._read_setting(target, statement.value)
        if problem is None:
            self._report(original, target, MigrationVerdict.MIGRATED, "the reconcilers use the same name")
            note = f"the reconcilers have it: {code}"
        else:
            self._report(original, target, MigrationVerdict.BY_HAND, problem)
            note = f"{_TODO}: {code}"
        return updated.with_changes(body=[cst.Pass()], trailing_whitespace=_comment(note))

    def _read_setting(self, target: str, value: cst.BaseExpression) -> str | None:
        """Take over a name under which kopf keeps its records; return what to do by hand for another setting."""
        settings = self._source.settings
        try:
            if target == "settings.persistence.finalizer":
                settings["finalizer"] = str(evaluate(value, self._constants))
                return None
            if target.startswith("settings.persistence.") and isinstance(value, cst.Call):
                return self._read_storage(value)
        except NotConstantError:
            return "the value is not a constant: write it into finalizers={...} or KopfNames(...)"
        return next(
            (advice for name, advice in SETTINGS_ADVICE.items() if target.startswith(name)),
            "opsdk has no such setting",
        )

    def _read_storage(self, call: cst.Call) -> str | None:
        name = self._kopf_name(call.func)
        if name not in (
            "kopf.AnnotationsProgressStorage",
            "kopf.AnnotationsDiffBaseStorage",
            "kopf.SmartProgressStorage",
        ):
            return "opsdk reads records from annotations only: let kopf store its records there before you switch"
        options = {each.keyword.value: each.value for each in call.args if each.keyword is not None}
        if unknown := sorted(options.keys() - {"prefix", "key", "v1"}):
            return f"opsdk has no counterpart of these options of the storage: {', '.join(unknown)}"
        for key in options.keys() & {"prefix", "key"}:
            self._source.settings[key] = str(evaluate(options[key], self._constants))
        return None

    # -------------------------------------------------------------- functions
    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._scopes.append(node)

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self._scopes.pop()
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        for decorator in node.decorators:
            if self._handler_kind(decorator) is not None:
                self._decorators.add(id(_function_of(decorator)))
        self._scopes.append(node)

    def _handler_kind(self, decorator: cst.Decorator) -> HandlerKind | None:
        return _DECORATORS.get(self._kopf_name(_function_of(decorator)))

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> Any:
        self._scopes.pop()
        remaining, lines, before = [], list(updated_node.leading_lines), []
        for original, updated in zip(original_node.decorators, updated_node.decorators, strict=True):
            kind = self._handler_kind(original)
            if kind is None and not (name := self._kopf_name(_function_of(original))):
                remaining.append(updated)
                continue
            lines += [line for line in updated.leading_lines if line.comment is not None]
            if kind is None:
                problem = advice_for(name)
                self._report(original, f"@{name}", MigrationVerdict.BY_HAND, problem)
            else:
                problem = self._read_handler(original_node, original, updated, kind)
            if problem:
                code = " ".join(cst.Module([]).code_for_node(original.decorator).split())
                lines.append(cst.EmptyLine(comment=cst.Comment(f"# {_TODO}: @{code}: {problem}")))
            if problem and self._functions:
                before.append(
                    cst.parse_statement(f'kopf_handlers.not_migrated("@kopf.{kind.value if kind else "on"}")')
                )
        written = updated_node.with_changes(decorators=remaining, leading_lines=lines)
        return cst.FlattenSentinel([*before, written]) if before else written

    def _read_handler(
        self, function: cst.FunctionDef, original: cst.Decorator, decorator: cst.Decorator, kind: HandlerKind
    ) -> str:
        """Add the handler of a decorator; return why it cannot be migrated, or ""."""
        title = f"@kopf.{kind.value} {function.name.value}"
        problem = ""
        if self._scopes:
            problem = "the function is inside another function: move it to the top level of the module"
            if any(isinstance(scope, cst.ClassDef) for scope in self._scopes):
                problem = "the function is a method: move it to the top level of the module"
        if kind is HandlerKind.LOGIN and not problem:
            self._report(original, title, MigrationVerdict.MIGRATED, advice_for("kopf.on.login"))
            return ""
        if kind not in RESOURCES | ACTIVITIES:
            problem = advice_for(f"kopf.{kind.value}")
        if problem:
            self._report(original, title, MigrationVerdict.BY_HAND, problem)
            return problem
        handler = self._handler(function, original, decorator, kind)
        self._source.handlers.append(handler)
        return ""

    def _handler(
        self, function: cst.FunctionDef, original: cst.Decorator, decorator: cst.Decorator, kind: HandlerKind
    ) -> KopfHandler:
        call = decorator.decorator
        arguments = call.args if isinstance(call, cst.Call) else ()
        words, keywords, options, values, problem = self._arguments(arguments)
        handler_id = str(values.get("id") or function.name.value)
        if (field := values.get("field")) and kind in RESOURCES:
            handler_id += "/" + (field if isinstance(field, str) else ".".join(map(str, field)))  # type: ignore[call-overload] # a sequence
        params = [*function.params.posonly_params, *function.params.params, *function.params.kwonly_params]
        rest = function.params.star_kwarg
        return KopfHandler(
            module=self._source.name,
            file=self._source.file,
            line=self._line(original),
            function=function.name.value,
            kind=kind,
            id=handler_id,
            selector=self._selector(words, keywords) if kind in RESOURCES else None,
            problem=problem,
            options=options,
            values=values,
            parameters={param.name.value: param.default is not None for param in params},
            passes_everything=rest is not None and self._reads(function.body, rest.name.value),
            is_async=function.asynchronous is not None,
        )

    def _reads(self, body: cst.BaseSuite, name: str) -> bool:
        """Whether a function reads a name, and does not only assign to it."""
        loads = md.ExpressionContext.LOAD
        return any(
            self.get_metadata(md.ExpressionContextProvider, each, None) is loads
            for each in m.findall(body, m.Name(name))
        )

    @staticmethod
    def _selector(words: Sequence[str], keywords: Mapping[str, str]) -> ResourceSelector:
        return parse_selector(words, dict(keywords))

    def _arguments(
        self, arguments: Sequence[cst.Arg]
    ) -> tuple[list[str], dict[str, str], dict[str, str], dict[str, object], str]:
        """Return words and keywords of the selector, source and values of the options, and a problem."""
        words: list[str] = []
        keywords: dict[str, str] = {}
        options: dict[str, str] = {}
        values: dict[str, object] = {}
        problem = ""
        for argument in arguments:
            code = cst.Module([]).code_for_node(argument.value)
            try:
                value = evaluate(argument.value, self._constants)
            except NotConstantError:
                value = None
            name = argument.keyword.value if argument.keyword is not None else ""
            if name and name not in _SELECTOR_OPTIONS:
                options[name] = code
                if value is not None:
                    values[name] = value
            elif name and isinstance(value, str) and name != "category":
                keywords[name] = value
            elif isinstance(value, tuple | list) and argument.star == "*":
                words += [str(each) for each in value]
            elif isinstance(value, str) and not argument.star and not name:
                words.append(value)
            else:
                problem = f"the resource {argument.star}{code} is not a constant: write its name into the decorator"
        return words, keywords, options, values, problem


def _function_of(decorator: cst.Decorator) -> cst.BaseExpression:
    return decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator


def _comment(text: str) -> cst.TrailingWhitespace:
    return cst.TrailingWhitespace(whitespace=cst.SimpleWhitespace("  "), comment=cst.Comment(f"# {text}"))


def _first_import(body: Sequence[cst.CSTNode]) -> int:
    """Return the position of imports: after the docstring and the imports from ``__future__``."""
    position = 0
    for index, statement in enumerate(body):
        if not isinstance(statement, cst.SimpleStatementLine) or not _is_preamble(statement.body[0]):
            break
        position = index + 1
    return position


def _is_preamble(statement: cst.BaseSmallStatement) -> bool:
    if isinstance(statement, cst.ImportFrom):
        return statement.module is not None and dotted_name(statement.module) == "__future__"
    return isinstance(statement, cst.Expr) and isinstance(statement.value, cst.SimpleString | cst.ConcatenatedString)
