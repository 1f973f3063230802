"""Migrates a kopf operator: sources in, sources and report out. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from opsdk.cli.migrate.constants import constants_of, parse
from opsdk.cli.migrate.kinds import resolve
from opsdk.cli.migrate.model import (
    ACTIVITIES,
    KindName,
    KopfHandler,
    Migration,
    MigrationFinding,
    MigrationVerdict,
    Settings,
    SourceModule,
)
from opsdk.cli.migrate.reader import read_module
from opsdk.cli.migrate.writer import Reconcilers, write_reconcilers
from opsdk.errors import UsageError

__all__ = ["migrate_sources"]

_ENTRY = "reconcilers"


def migrate_sources(
    sources: Mapping[str, str],
    known: Sequence[KindName],
    *,
    name: str,
    package: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> Migration:
    """Return the migrated operator.

    Args:
        sources: text of the Python files by path, relative to the operator's folder.
        known: kinds of the operator's definitions.
        name: of the operator.
        package: of the operator's folder, if it is a package; the generated module imports from it.
        progress: gets each file before it is migrated.

    Raises:
        UsageError: a file does not parse, or no file has a handler of kopf.
    """
    trees = {file: parse(text, file) for file, text in sorted(sources.items()) if "kopf" in text}
    constants: dict[str, Any] = {}
    for file, text in sorted(sources.items()):
        constants |= constants_of(trees.get(file) or parse(text, file), constants)
    modules = []
    for file, tree in trees.items():
        progress(file)
        known_here = {**constants, **constants_of(tree, constants)}
        modules.append(read_module(tree, name=_module_name(file), file=file, constants=known_here))
    if not any(module.handlers or module.findings for module in modules):
        raise UsageError(f"no file of {name} has a handler of kopf: name the file or folder with @kopf.on handlers")
    findings = [finding for module in modules for finding in module.findings]
    handlers = [_with_kind(handler, known, findings) for module in modules for handler in module.handlers]
    migrated = [(handler, kind) for handler, kind in handlers if kind is not None or handler.kind in ACTIVITIES]
    files = {module.file: module.text for module in modules}
    entry, written = _write(modules, migrated, name=name, is_single=len(sources) == 1)
    files[entry] = _complete(files.get(entry, ""), written, modules, package=package, is_single=len(sources) == 1)
    findings += written.findings
    return Migration(
        files=files,
        entry=entry,
        findings=sorted(findings, key=lambda finding: (finding.file, finding.line, finding.what)),
        kinds=list(dict.fromkeys(kind for _, kind in migrated if kind is not None)),
        handlers=len(handlers)
        + sum(finding.what.startswith("@kopf.") for module in modules for finding in module.findings),
    )


def _module_name(file: str) -> str:
    parts = list(PurePosixPath(file).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _with_kind(
    handler: KopfHandler, known: Sequence[KindName], findings: list[MigrationFinding]
) -> tuple[KopfHandler, KindName | None]:
    """Return a handler with its kind; report one whose kind is not known."""
    if handler.selector is None:
        return handler, None
    problem, kind = handler.problem, None
    if not problem and not handler.selector.name:
        problem = "it names no resource, or a whole category"
    if not problem and (kind := resolve(handler.selector, known)) is None:
        problem = f"no definition of {handler.selector.name} was found: pass --crd FILE"
    if problem:
        findings.append(_finding(handler, MigrationVerdict.BY_HAND, f"not called: {problem}"))
    elif kind is not None and kind.is_guessed:
        text = f"no definition was found, so {kind.kind} is guessed from {kind.plural}: pass --crd FILE"
        findings.append(_finding(handler, MigrationVerdict.CHECK, text, what=f"kind of {handler.shown}"))
    return handler, kind


def _finding(handler: KopfHandler, verdict: MigrationVerdict, became: str, *, what: str = "") -> MigrationFinding:
    return MigrationFinding(
        file=handler.file, line=handler.line, what=what or handler.shown, verdict=verdict, became=became
    )


# ------------------------------------------------------------------ the generated module
def _write(
    modules: Sequence[SourceModule],
    handlers: Sequence[tuple[KopfHandler, KindName | None]],
    *,
    name: str,
    is_single: bool,
) -> tuple[str, Reconcilers]:
    settings: dict[str, str] = {}
    for module in modules:
        settings |= module.settings
    tops = {module.name: module.top_names for module in modules}
    aliases = {module.name: _alias(module.name) for module in modules}

    def reference(module: str, word: str) -> str:
        if is_single or word not in tops[module] or word in ("opsdk", "kopf_handlers"):
            return word
        return f"{aliases[module]}.{word}"

    taken = frozenset(tops[modules[0].name] if is_single else aliases.values()) | {"opsdk", "kopf_handlers"}
    entry = modules[0].file if is_single else f"{_ENTRY}.py"
    return entry, write_reconcilers(
        handlers, name=name, settings=Settings(**settings), reference=reference, taken=taken
    )


def _alias(module: str) -> str:
    return re.sub(r"\W", "_", module)


_HEADING = "# The operator. opsdk migrate kopf wrote what follows."


def _in_order(imports: Iterable[str]) -> Sequence[str]:
    """Return a block of imports, and the empty line after it: modules first, then names."""
    lines = sorted(imports, key=lambda line: (line.startswith("from "), line))
    return [*lines, ""] if lines else []


def _complete(
    text: str, written: Reconcilers, modules: Sequence[SourceModule], *, package: str, is_single: bool
) -> str:
    """Return the text of the module with the operator."""
    if is_single:
        added = "".join(f"{line}\n" for line in sorted(written.imports) if line not in text.splitlines())
        first = "import opsdk\n"
        text = text.replace(first, f"{added}{first}", 1)
        body, main, guarded = text.rstrip().partition('\nif __name__ == "__main__":')
        tail = f"{main}{guarded}\n" if main else ""
        return f"{body.rstrip()}\n\n\n{_HEADING}\n{written.text}" + (f"\n{tail}" if tail else "")
    imports = []
    for module in modules:
        if not module.handlers:
            continue
        path = f"{package}.{module.name}" if package and module.name != "__init__" else package or module.name
        alias = _alias(module.name)
        imports.append(f"import {path}" if path == alias else f"import {path} as {alias}")
    own = {"import opsdk", "from opsdk.migration import kopf_handlers"}
    own |= {line for line in written.imports if line.startswith("from opsdk.")}
    lines = [
        '"""The reconcilers of the operator, which call its handlers. opsdk migrate kopf wrote this file."""',
        "",
        "from __future__ import annotations",
        "",
        *_in_order(written.imports - own),
        *_in_order(own),
        *_in_order(imports),
        written.text,
    ]
    return "\n".join(lines)
