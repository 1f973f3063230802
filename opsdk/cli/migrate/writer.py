"""Writes the reconcilers that call the handlers of a migrated operator. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from opsdk.cli.migrate.arguments import HandlerCode, call_code, quoted
from opsdk.cli.migrate.model import (
    ACTIVITIES,
    CHANGES,
    HandlerKind,
    KindName,
    KopfHandler,
    MigrationFinding,
    MigrationVerdict,
    Settings,
)
from opsdk.cli.scaffold.files import module_of

__all__ = ["Reconcilers", "write_reconcilers"]

Reference = Callable[[str, str], str]
_LINE: Final = 120


@dataclass(slots=True, kw_only=True)
class Reconcilers:
    """The generated code.

    Attributes:
        text: the declarations, without imports.
        imports: further imports that it needs.
        findings: what became of each handler.
    """

    text: str = ""
    imports: set[str] = field(default_factory=set)
    findings: list[MigrationFinding] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """Names in the generated code of one kind."""

    kind: str
    record: str
    variable: str
    reconcile: str
    finalize: str


def write_reconcilers(
    handlers: Sequence[tuple[KopfHandler, KindName | None]],
    *,
    name: str,
    settings: Settings,
    reference: Reference,
    taken: frozenset[str],
) -> Reconcilers:
    """Return the code of the operator.

    Args:
        handlers: in the order of the source, each with its kind; None for startup and cleanup.
        name: of the operator.
        settings: names of kopf's records.
        reference: returns the code for a name of a module.
        taken: names that the generated code must not bind.
    """
    return _Writer(name, settings, reference, taken).write(handlers)


class _Writer:
    def __init__(self, name: str, settings: Settings, reference: Reference, taken: frozenset[str]) -> None:
        self._name, self._settings, self._reference = name, settings, reference
        self._taken = set(taken)
        self._written = Reconcilers()
        self._parts: list[str] = []
        self._watching: dict[str, list[KopfHandler]] = {}
        """The handlers of changes by the variable of their kind."""
        self._daemon_ids = set[tuple[str, str]]()
        """The variable of the kind and the id of each daemon and timer."""
        self._operator = self._unique("operator")
        self._memo = self._unique("MEMO")

    def _unique(self, name: str) -> str:
        while name in self._taken:
            name = f"{name}_"
        self._taken.add(name)
        return name

    def _report(self, handler: KopfHandler, verdict: MigrationVerdict, became: str, what: str = "") -> None:
        self._written.findings.append(
            MigrationFinding(
                file=handler.file, line=handler.line, what=what or handler.shown, verdict=verdict, became=became
            )
        )

    def write(self, handlers: Sequence[tuple[KopfHandler, KindName | None]]) -> Reconcilers:
        """Return the code."""
        kinds = list(dict.fromkeys(kind for _, kind in handlers if kind is not None))
        uses_memo = any("memo" in handler.parameters or handler.passes_everything for handler, _ in handlers)
        self._parts.append(f'{self._operator} = opsdk.Operator("{self._name}")')
        if uses_memo:
            self._parts[-1] += f"\n{self._memo} = kopf_handlers.Memo()"
        for kind in kinds:
            self._write_kind(kind, [handler for handler, of in handlers if of == kind], uses_memo=uses_memo)
        self._write_activities([handler for handler, _ in handlers if handler.kind in ACTIVITIES])
        self._written.text = "\n\n\n".join(self._parts) + "\n"
        return self._written

    # -------------------------------------------------------------- one kind
    def _write_kind(self, kind: KindName, handlers: Sequence[KopfHandler], *, uses_memo: bool) -> None:
        module = _identifier(kind.kind)
        words = _Words(
            kind=self._unique(module.upper()),
            record=self._unique(f"{module.upper()}_RECORD"),
            variable=module,
            reconcile=self._unique(f"reconcile_{module}"),
            finalize=self._unique(f"finalize_{module}"),
        )
        arguments = self._record_arguments(handlers)
        if uses_memo:
            arguments.append(f"memo={self._memo}")
        gvk = f'opsdk.GroupVersionKind.parse("{kind.api_version}", "{kind.kind}")'
        declared = f"{words.kind} = opsdk.Kind({gvk}, opsdk.Unstructured)"
        self._parts[0] += f"\n{declared}\n{words.record} = kopf_handlers.KopfKind({', '.join(arguments)})"
        self._watching[words.kind] = [handler for handler in handlers if handler.kind in CHANGES]
        changes = [handler for handler in handlers if handler.kind in CHANGES - {HandlerKind.DELETE}]
        deletions = [handler for handler in handlers if handler.kind is HandlerKind.DELETE]
        daemons = [handler for handler in handlers if handler.kind in (HandlerKind.TIMER, HandlerKind.DAEMON)]
        if not daemons and all(handler.options.get("optional") == "True" for handler in deletions):
            for handler in deletions:
                note = "not called, as in kopf: the kind has no finalizer; pass finalizers={...} to call it"
                self._report(handler, MigrationVerdict.BY_HAND, note)
            deletions = []
        specs = [self._write_daemon(words, handler) for handler in daemons]
        if deletions or daemons:
            self._write_finalizer(words, kind, deletions)
        if changes or deletions or daemons:
            self._write_reconciler(words, changes, specs, has_finalizer=bool(deletions or daemons), deletions=deletions)
        for handler in handlers:
            if handler.kind is HandlerKind.EVENT:
                self._write_event(words, handler)

    def _record_arguments(self, handlers: Iterable[KopfHandler]) -> list[str]:
        settings, arguments = self._settings, []
        names = [f'{key}="{value}"' for key, value in (("prefix", settings.prefix), ("key", settings.key)) if value]
        if names:
            arguments.append(f"kopf_handlers.KopfNames({', '.join(names)})")
        fields = sorted(
            {str(path) for handler in handlers if (path := handler.values.get("field")) and str(path)[:6] == "status"}
        )
        if fields:
            arguments.append(f"extra_fields={fields!r}")
        return arguments

    def _rbac(self, words: _Words) -> str:
        self._written.imports.add("from opsdk.rbac.rules import RbacRule")
        return f'rbac=[RbacRule("patch", {words.kind}), RbacRule("patch", {words.kind}, subresource="status")]'

    def _write_reconciler(
        self,
        words: _Words,
        changes: Sequence[KopfHandler],
        daemons: Sequence[str],
        *,
        has_finalizer: bool,
        deletions: Sequence[KopfHandler],
    ) -> None:
        options = [words.kind]
        if has_finalizer:
            name = quoted(self._settings.finalizer)
            name = name if "/" in name else f"{words.record}.finalizer({name})"
            options.append(f"finalizers={{{name}: {words.finalize}}}")
        if daemons:
            options.append("\n".join(["daemons=[", *(f"        {spec}," for spec in daemons), "    ]"]))
        options.append(self._rbac(words))
        records = bool(changes or deletions)
        summary = "Call the handlers of what changed since the record." if records else "Only daemons run."
        self._parts.append(
            "\n".join(
                [
                    f"@{self._operator}.reconciler(",
                    *(f"    {option}," for option in options),
                    ")",
                    f"async def {words.reconcile}({words.variable}: opsdk.Unstructured, ctx: opsdk.Context) -> None:",
                    f'    """{summary}"""',
                    *(self._calls(words, "ChangeCall", "change", changes, words.reconcile) if records else ()),
                ]
            )
        )

    def _write_finalizer(self, words: _Words, kind: KindName, deletions: Sequence[KopfHandler]) -> None:
        summary = "Call the handlers of the deletion." if deletions else "Release the object: its daemons have ended."
        self._parts.append(
            "\n".join(
                [
                    f"async def {words.finalize}({words.variable}: opsdk.Unstructured, ctx: opsdk.Context) -> None:",
                    f'    """{summary}"""',
                    *(self._calls(words, "ChangeCall", "change", deletions, words.finalize) if deletions else ()),
                ]
            )
        )
        for handler in deletions:
            if handler.options.get("optional") == "True":
                self._report(
                    handler,
                    MigrationVerdict.CHECK,
                    f"optional=True: the finalizer is added to every {kind.kind}",
                    f"option optional of {handler.shown}",
                )
            if handler.options.keys() & {"labels", "annotations", "when", "field"}:
                self._report(
                    handler,
                    MigrationVerdict.CHECK,
                    f"the finalizer is added to every {kind.kind}, even to those that the filter excludes",
                    f"filter of {handler.shown}",
                )

    def _calls(
        self, words: _Words, class_name: str, call: str, handlers: Sequence[KopfHandler], place: str
    ) -> Iterable[str]:
        """Yield the block that calls handlers: one `if` for each function, with the conditions of its decorators."""
        yield f"    async with kopf_handlers.{class_name}({words.variable}, ctx, {words.record}) as {call}:"
        calls: dict[str, list[HandlerCode]] = {}
        for handler in handlers:
            code = HandlerCode(handler, self._reference, call)
            calls.setdefault(code.statement(12), []).append(code)
            self._report_call(code, f"called by {place}", used={"optional": ""})
        if not calls:
            yield "        pass"
        elif class_name == "ChangeCall":
            yield from self._watched(words, call)
        for statement, codes in calls.items():
            alternatives = list(dict.fromkeys(code.condition() for code in codes))
            if "" in alternatives:
                yield codes[0].statement(8)
                continue
            yield from _if(alternatives)
            yield statement

    def _watched(self, words: _Words, call: str) -> Iterable[str]:
        """Yield the statement that leaves objects without a record that no filter of the kind matches."""
        filters = [HandlerCode(handler, self._reference, call).watched() for handler in self._watching[words.kind]]
        if "" not in filters:
            unique = list(dict.fromkeys(filters))
            parts = [f"({each})" if " and " in each and len(unique) > 1 else each for each in unique]
            yield "\n".join(
                [
                    f"        {call}.is_watched = (",
                    *(f"            {'or ' if index else ''}{each}" for index, each in enumerate(parts)),
                    "        )",
                ]
            )

    def _report_call(self, code: HandlerCode, became: str, *, used: dict[str, str]) -> None:
        handler = code.handler
        if code.unknown:
            label = "argument" if len(code.unknown) == 1 else "arguments"
            names = ", ".join(code.unknown)
            note = f"{became}, which raises NotImplementedError: compute the {label} {names} in the handler"
            self._report(handler, MigrationVerdict.BY_HAND, note)
        else:
            self._report(handler, MigrationVerdict.MIGRATED, became)
        for name in code.ignored_options(used):
            self._report(
                handler,
                MigrationVerdict.CHECK,
                f"{name}={handler.options[name]} has no counterpart, so it is not applied",
                f"option {name} of {handler.shown}",
            )

    # -------------------------------------------------------------- daemons, timers, events
    def _write_daemon(self, words: _Words, handler: KopfHandler) -> str:
        """Write the function of a daemon or timer; return its specification."""
        function = self._unique(f"run_{_identifier(handler.function)}")
        code = HandlerCode(handler, self._reference, "call")
        is_timer = handler.kind is HandlerKind.TIMER
        lines = [
            f"async def {function}({words.variable}: opsdk.Unstructured, ctx: opsdk.Context) -> None:",
            f'    """Call the {handler.kind.value} {handler.function}."""',
            f"    async with kopf_handlers.ObjectCall({words.variable}, ctx, {words.record}) as call:",
        ]
        used = {"initial_delay": "", "interval": "", "backoff": "", "cancellation_timeout": ""}
        if "initial_delay" in handler.options:
            lines.append(f"        await call.delay_first({quoted(handler.id)}, {code.option('initial_delay')})")
        if condition := code.condition():
            lines += [*_if([condition]), code.statement(12)]
        else:
            lines.append(code.statement(8))
        lines += self._todo_options(code, used)
        self._parts.append("\n".join(lines))
        options = [f"function={function}", f'name="{self._daemon_name(words, handler, function)}"']
        if is_timer:
            interval = code.option("interval") if "interval" in handler.options else "3600"
            options.append(f"every={interval}")
            if "interval" not in handler.options:
                self._report(
                    handler,
                    MigrationVerdict.BY_HAND,
                    "it has no interval, so it is called every hour: set every=",
                    f"interval of {handler.shown}",
                )
        if "backoff" in handler.options:
            self._written.imports.add("from opsdk.aio.backoff import Backoff")
            seconds = code.option("backoff")
            options.append(f"backoff=Backoff(base={seconds}, cap={seconds})")
        if "cancellation_timeout" in handler.options:
            options.append(f"stop_timeout={code.option('cancellation_timeout')}")
        if condition and not is_timer:
            self._report(
                handler,
                MigrationVerdict.CHECK,
                "the filter is checked only when the daemon starts",
                f"filter of {handler.shown}",
            )
        if not is_timer:
            note = "after the daemon returns, the finalizer stays until the object is deleted; kopf removes it at once"
            self._report(handler, MigrationVerdict.CHECK, note, f"end of {handler.shown}")
        self._written.imports.add("from opsdk.controller.daemons import DaemonSpec")
        self._report_call(code, f"a daemon of {words.reconcile}, called by {function}", used=used)
        return call_code("DaemonSpec", options, 8).strip()

    def _daemon_name(self, words: _Words, handler: KopfHandler, function: str) -> str:
        """Return the name of a daemon or timer: its id, unless another one has it."""
        if (words.kind, handler.id) not in self._daemon_ids:
            self._daemon_ids.add((words.kind, handler.id))
            return handler.id
        note = f"another daemon or timer has the id {handler.id}: kopf runs only the first, opsdk runs both"
        self._report(handler, MigrationVerdict.CHECK, note, f"id of {handler.shown}")
        return function

    def _todo_options(self, code: HandlerCode, used: dict[str, str]) -> list[str]:
        options = code.handler.options
        return [f"        # TODO(migrate): {name}={options[name]}" for name in code.ignored_options(used)]

    def _write_event(self, words: _Words, handler: KopfHandler) -> None:
        function = self._unique(f"observe_{_identifier(handler.function)}")
        name = re.sub(r"[^a-z0-9]+", "-", f"{words.variable}-{handler.function}".lower()).strip("-")
        self._parts.append(
            "\n".join(
                [
                    call_code(f"@{self._operator}.reconciler", [words.kind, f'name="{name}"', self._rbac(words)], 0),
                    f"async def {function}({words.variable}: opsdk.Unstructured, ctx: opsdk.Context) -> None:",
                    f'    """Call the event handler {handler.function}."""',
                    *self._calls(words, "ObjectCall", "call", [handler], function),
                ]
            )
        )
        note = "it gets ADDED and MODIFIED; for DELETED, add a finalizer, or a WatchSpec with Funcs(delete=...)"
        self._report(handler, MigrationVerdict.CHECK, note, f"events of {handler.shown}")

    # -------------------------------------------------------------- startup and cleanup
    def _write_activities(self, handlers: Sequence[KopfHandler]) -> None:
        if not handlers:
            return
        self._written.imports.add("from collections.abc import AsyncIterator")
        function = self._unique("run_hooks")
        lines = [
            f"@{self._operator}.setup",
            f"async def {function}(_: opsdk.Operator) -> AsyncIterator[None]:",
            '    """Call the startup handlers before the reconcilers start, and the cleanup handlers at the end."""',
        ]
        for kind in (HandlerKind.STARTUP, HandlerKind.CLEANUP):
            lines += [self._activity(handler, function) for handler in handlers if handler.kind is kind]
            if kind is HandlerKind.STARTUP:
                lines.append("    yield")
        self._parts.append("\n".join(lines))

    def _activity(self, handler: KopfHandler, place: str) -> str:
        code = HandlerCode(handler, self._reference, "_")
        codes = {
            "logger": f'logging.getLogger("{self._name}")',
            "memo": self._memo,
            "settings": "None",
            "param": code.option("param"),
            "retry": "0",
        }
        words = []
        for name, has_default in handler.parameters.items():
            if name in codes:
                words.append(f"{name}={codes[name]}")
            elif not has_default:
                code.unknown.append(name)
                words.append(f'{name}=kopf_handlers.not_migrated("the argument {name}")')
        if handler.passes_everything:
            words += [f"{name}={value}" for name, value in codes.items() if name not in handler.parameters]
        if any("logging." in word for word in words):
            self._written.imports.add("import logging")
        self._report_call(code, f"called by {place}", used={})
        if handler.is_async:
            return f"    await {code.function}({', '.join(words)})"
        self._written.imports.add("from opsdk.aio.blocking import blocking")
        return f"    await blocking({code.function})({', '.join(words)})"


def _if(alternatives: Sequence[str]) -> list[str]:
    """Return the lines of an ``if`` at the margin of a call, with conditions of which one must hold."""
    several = len(alternatives) > 1
    parts = [f"({each})" if several and " and " in each else each for each in alternatives]
    if len(line := f"        if {' or '.join(parts)}:") <= _LINE:
        return [line]
    joined = "\n            or ".join(parts) if several else parts[0].replace(" and ", "\n            and ")
    return ["        if (", f"            {joined}", "        ):"]


def _identifier(name: str) -> str:
    """Return a name for variables.

    >>> _identifier("HTTPRoute"), _identifier("create_fn")
    ('http_route', 'create_fn')
    """
    return module_of(name) if re.fullmatch(r"[A-Z][A-Za-z0-9]{0,62}", name) else name.lower()
