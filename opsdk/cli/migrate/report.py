"""The report of a migration, for the terminal and as Markdown. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from opsdk.cli.migrate.model import Migration, MigrationFinding, MigrationVerdict

__all__ = ["markdown_report", "report_lines"]

_TITLES: Final = {
    MigrationVerdict.MIGRATED: "Migrated",
    MigrationVerdict.CHECK: "To check",
    MigrationVerdict.BY_HAND: "By hand",
}
_NOTES: Final = {
    MigrationVerdict.MIGRATED: "",
    MigrationVerdict.CHECK: "These work, but may behave differently in the case that the line names.",
    MigrationVerdict.BY_HAND: "Not migrated. The code has a `TODO(migrate)` there, or raises `NotImplementedError`.",
}
_RECORDS: Final = (
    "The new operator keeps kopf's records: its finalizer, and the annotation with the spec that was last handled. So "
    "nothing is created a second time, and kopf can take over again. Run only one of the two at a time."
)


def report_lines(migration: Migration) -> Iterator[str]:
    """Yield the report for a terminal. Work by hand comes last."""
    for verdict in MigrationVerdict:
        for finding in _of(migration, verdict):
            yield f"{finding.file}:{finding.line}: {finding.what}: {verdict.value}: {finding.became}"
    yield summary(migration)


def summary(migration: Migration) -> str:
    """Return the counts."""
    counts = Counter(finding.verdict for finding in migration.findings)
    words = [f"{_TITLES[verdict].lower()}: {counts[verdict]}" for verdict in MigrationVerdict]
    return ", ".join([f"handlers: {migration.handlers}", f"kinds: {len(migration.kinds)}", *words])


def markdown_report(migration: Migration, *, name: str) -> str:
    """Return the report as a Markdown document."""
    lines = [f"# {name}: migrated from kopf", "", f"{summary(migration)}.", "", _RECORDS, ""]
    for verdict in reversed(MigrationVerdict):
        findings = _of(migration, verdict)
        if not findings:
            continue
        lines += [f"## {_TITLES[verdict]}", ""]
        if _NOTES[verdict]:
            lines += [_NOTES[verdict], ""]
        lines += ["| line | what | result |", "| --- | --- | --- |"]
        lines += [f"| {each.file}:{each.line} | {_cell(each.what)} | {_cell(each.became)} |" for each in findings]
        lines.append("")
    return "\n".join(lines)


def _of(migration: Migration, verdict: MigrationVerdict) -> Sequence[MigrationFinding]:
    return [finding for finding in migration.findings if finding.verdict is verdict]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
