"""The plan as text for a terminal, and as Markdown for a pull request. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from opsdk.base.shortened import listed, shortened
from opsdk.engine.comment import Block, comment_lines, one_line, prose
from opsdk.engine.differences import Difference, differences, new_fields
from opsdk.engine.foreign_changes import ForeignAction, PlayedChange
from opsdk.engine.plan import ChangeAction, Consequence, Plan, PlannedChange, PlannedObject, Severity
from opsdk.engine.plan_collapse import Collapsed, collapse_consequences, collapse_objects
from opsdk.structured_merge.value import JsonValue

__all__ = ["StyledLine", "markdown_lines", "summary_of", "text_lines", "value_text"]

_SIGNS: Final = {
    ChangeAction.CREATE: "+",
    ChangeAction.UPDATE: "~",
    ChangeAction.REPLACE: "±",
    ChangeAction.DELETE: "-",
}
_DIFF_SIGNS: Final = {
    ChangeAction.CREATE: "+",
    ChangeAction.UPDATE: "!",
    ChangeAction.REPLACE: "!",
    ChangeAction.DELETE: "-",
}
_STYLES: Final = {
    ChangeAction.CREATE: "green",
    ChangeAction.UPDATE: "yellow",
    ChangeAction.REPLACE: "magenta",
    ChangeAction.DELETE: "red",
}
_SEVERITIES: Final = {
    Severity.DANGER: ("Danger", "bold red"),
    Severity.WARNING: ("Warning", "yellow"),
    Severity.NOTE: ("Note", ""),
}
_MAX_DIFFERENCES: Final = 12
_MAX_VALUE: Final = 70
_MAX_NAMES: Final = 3
_MAX_PLAYED: Final = 50
_PLAYED_TITLE: Final = "What others did meanwhile, from the recording:"
_UNKNOWN_TITLE: Final = "The version writes these objects, which were not read, so their changes are not known:"
_NAMING: Final = ("apiVersion", "kind", "metadata.name", "metadata.namespace")


class StyledLine(NamedTuple):
    """A line of the terminal view, with the style that rich gives it."""

    text: str
    style: str = ""


def text_lines(plan: Plan) -> Iterator[StyledLine]:
    """Yield the lines for a terminal: what is dangerous first, then what changes, then what was not seen."""
    yield StyledLine(_title(plan), "bold")
    for severity, (label, style) in _SEVERITIES.items():
        for each in _of(plan, severity):
            yield StyledLine("")
            yield StyledLine(f"{label}: {each.first.subject}{_others(each.others)}", style)
            yield StyledLine(f"  {each.first.message}")
    yield from _played_lines(plan)
    for collapsed in collapse_objects(plan.objects):
        yield StyledLine("")
        yield from _object_lines(collapsed)
    if plan.omitted:
        yield StyledLine("")
        yield StyledLine(_omitted_title(plan), "bold")
    for collapsed in collapse_objects(plan.omitted):
        yield StyledLine("")
        yield from _object_lines(collapsed)
    yield from _unseen_lines(plan)
    yield StyledLine("")
    yield StyledLine(summary_of(plan), "bold")


def _played_lines(plan: Plan) -> Iterator[StyledLine]:
    if plan.played:
        yield StyledLine("")
        yield StyledLine(_PLAYED_TITLE, "bold")
    for played in plan.played[:_MAX_PLAYED]:
        yield from (StyledLine(f"  {text}", "yellow" if played.skipped else "") for text in _played_texts(played))
    if (rest := len(plan.played) - _MAX_PLAYED) > 0:
        yield StyledLine(f"  ... {rest} more: --output json has all")


def _played_texts(played: PlayedChange) -> Iterator[str]:
    """Yield when a change of another client came, what it changed, and what the operator had written by then."""
    change = played.change
    if played.writes:
        yield f"by then, the operator wrote: {', '.join(played.writes)}"
    yield from (f"by then, the reconcile of {failure} (it failed last)" for failure in played.failing[:_MAX_NAMES])
    manager = f" by {change.manager}" if change.manager else ""
    skipped = f", skipped: {played.skipped}" if played.skipped else ""
    yield f"after {change.seconds:.3f} s: {change.action.value} {change.subject}{manager}{skipped}"
    if change.action is ForeignAction.UPDATE and not played.skipped:
        fields = list(new_fields(differences(change.before, change.after)))
        yield from (f"    {text}" for text in _field_texts(fields, created=False))


def _title(plan: Plan) -> str:
    version = f", {plan.server_version}" if plan.server_version else ""
    against = f" against {plan.against}" if plan.against else ""
    return f"Plan of {plan.operator}{against} for the cluster as of {plan.taken_at}{version}"


def _omitted_title(plan: Plan) -> str:
    return f"Only {plan.against} does this:"


def summary_of(plan: Plan) -> str:
    """Return the last line of the plan.

    >>> summary_of(Plan(operator="shop", taken_at="", server_version=""))
    'Nothing changes.'
    """
    counts = [f"{plan.count(action)} to {action.value}" for action in ChangeAction if plan.count(action)]
    severities = [
        f"{count} {label.lower()}{'s' if count > 1 else ''}"
        for severity, (label, _) in _SEVERITIES.items()
        if (count := sum(each.severity is severity for each in plan.consequences)) and severity is not Severity.NOTE
    ]
    if omitted := sum(len(planned.changes) for planned in plan.omitted):
        counts.append(f"{omitted} only in {plan.against}")
    if plan.unknown:
        counts.append(f"{len(plan.unknown)} not known")
    parts = [", ".join(counts) or "Nothing changes", *([", ".join(severities)] if severities else [])]
    return ". ".join(parts) + "."


def _of(plan: Plan, severity: Severity) -> list[Collapsed[Consequence]]:
    return collapse_consequences([each for each in plan.consequences if each.severity is severity])


def _others(subjects: Sequence[str]) -> str:
    if not subjects:
        return ""
    names = ", ".join(subject.rpartition(" ")[2] for subject in subjects[:_MAX_NAMES])
    rest = len(subjects) - _MAX_NAMES
    return f" and {len(subjects)} more: {names}" + (", ..." if rest > 0 else "")


def _object_lines(collapsed: Collapsed[PlannedObject]) -> Iterator[StyledLine]:
    planned = collapsed.first
    controller = f" (controller {planned.controller})" if planned.controller else ""
    yield StyledLine(f"{planned.subject}{controller}{_others(collapsed.others)}", "bold")
    for cause in planned.causes:
        yield StyledLine(f"  because of {cause}", "dim")
    if planned.unread:
        yield StyledLine(f"  {_unread_text(planned)}", "red")
    for change in planned.changes:
        yield StyledLine(f"  {_SIGNS[change.action]} {change.action.value} {change.subject}", _STYLES[change.action])
        for text in _detail_lines(change):
            yield StyledLine(f"      {text}")


def _unread_text(planned: PlannedObject) -> str:
    names = listed(planned.unread, _MAX_NAMES)
    return f"may differ in the cluster, because these were not read: {names}"


def _detail_lines(change: PlannedChange) -> Iterator[str]:
    # The line above has type and name. An empty object says nothing.
    flat = [each for each in new_fields(change.differences) if each.path not in _NAMING and each.new != {}]
    yield from _field_texts(flat, created=change.action is ChangeAction.CREATE)
    if change.reason:
        yield f"why: {change.reason}"
    if change.effects:
        yield f"then: {'; '.join(change.effects)}"


def _field_texts(fields: Sequence[Difference], *, created: bool) -> Iterator[str]:
    """Yield the first fields, and the number of the others."""
    for difference in fields[:_MAX_DIFFERENCES]:
        yield _difference_text(difference, created=created)
    if (rest := len(fields) - _MAX_DIFFERENCES) > 0:
        yield f"... {rest} more field{'s' if rest > 1 else ''}"


def _difference_text(difference: Difference, *, created: bool) -> str:
    if created and difference.old is None:
        return f"{difference.path}: {value_text(difference.new)}"
    return f"{difference.path}: {value_text(difference.old)} -> {value_text(difference.new)}"


def value_text(value: JsonValue) -> str:
    """Return the value of a field, cut to one line."""
    text = "(none)" if value is None else repr(value) if isinstance(value, str) else str(value)
    return shortened(text, _MAX_VALUE)


def _unknown_texts(plan: Plan) -> Iterator[str]:
    """Yield the objects whose changes are not known, by kind."""
    names: dict[str, list[str]] = {}
    for subject in plan.unknown:
        kind, _, name = subject.partition(" ")
        names.setdefault(kind, []).append(name)
    for kind, members in names.items():
        yield f"{kind} {listed(members, _MAX_NAMES)}"


def _unseen_lines(plan: Plan) -> Iterator[StyledLine]:
    if plan.unknown:
        yield StyledLine("")
        yield StyledLine(_UNKNOWN_TITLE, "bold red")
        yield from (StyledLine(f"  {text}", "red") for text in _unknown_texts(plan))
    if plan.unseen:
        yield StyledLine("")
        yield StyledLine("Not seen, so the plan does not promise what depends on it:", "bold")
        for unseen in plan.unseen:
            yield StyledLine(f"  {unseen}", "red" if unseen in plan.blind else "")
    for target in plan.connections:
        yield StyledLine("")
        yield StyledLine(f"Not reached: {target}", "bold red")


# ------------------------------------------------------------------ Markdown
_WHOLE: Final = "opsdk plan --output text"


def markdown_lines(plan: Plan) -> list[str]:
    """Return the lines of a comment for a pull request: the summary first, and each object folded."""
    title = [f"### {prose(_title(plan))}", "", f"**{prose(summary_of(plan))}**"]
    blocks = [*_markdown_consequences(plan), *map(_markdown_details, collapse_objects(plan.objects))]
    omitted = [_markdown_details(each) for each in collapse_objects(plan.omitted)]
    if omitted:
        first = msgspec.structs.replace(omitted[0], head=["", f"**{prose(_omitted_title(plan))}**", *omitted[0].head])
        blocks += [first, *omitted[1:]]
    return comment_lines(title, [*blocks, *_markdown_unseen(plan)], whole=_WHOLE)


def _markdown_consequences(plan: Plan) -> Iterator[Block]:
    for severity, (label, _) in _SEVERITIES.items():
        lines = [
            f"- **{label}**: `{each.first.subject}`{_others(each.others)}: {prose(each.first.message)}"
            for each in _of(plan, severity)
        ]
        yield Block(head=[""], chunks=[[line] for line in lines], noun=label.lower(), rank=-severity)


def _markdown_unseen(plan: Plan) -> Iterator[Block]:
    unknown = [[f"- {prose(text)}"] for text in _unknown_texts(plan)]
    yield Block(head=["", _UNKNOWN_TITLE, ""], chunks=unknown, noun="kind that was not read")
    texts = [*map(str, plan.unseen), *(f"{target}: it was not reached" for target in plan.connections)]
    unseen = [[f"- {prose(text)}"] for text in texts]
    title = "Not seen, so the plan does not promise what depends on it:"
    yield Block(head=["", title, ""], chunks=unseen, noun="thing that was not seen")


def _markdown_details(collapsed: Collapsed[PlannedObject]) -> Block:
    planned = collapsed.first
    unread = [prose(_unread_text(planned)), ""] if planned.unread else []
    return Block(
        head=["", one_line(f"<details><summary>{planned.subject}{_others(collapsed.others)}</summary>"), "", *unread,
              "```diff"],
        chunks=[
            [f"{_DIFF_SIGNS[change.action]} {change.action.value} {change.subject}",
             *(f"    {text}" for text in _detail_lines(change))]
            for change in planned.changes
        ],
        tail=["```", "", "</details>"],
        noun="change",
        whole="object",
        rank=1,
    )  # fmt: skip
