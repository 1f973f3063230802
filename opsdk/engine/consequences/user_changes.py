"""Changes of the user that do not last. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from opsdk.apimachinery.secret_values import is_secret
from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.engine.consequences.evidence import Evidence
from opsdk.engine.consequences.fields import owners_of
from opsdk.engine.differences import Difference, differences, new_fields
from opsdk.engine.net_changes import without_server_set
from opsdk.engine.plan import Consequence, ConsequenceKind, Severity
from opsdk.engine.plan_text import value_text
from opsdk.engine.redaction import without_secret_values
from opsdk.engine.writes import Entry
from opsdk.structured_merge.fieldpath import format_path
from opsdk.structured_merge.value import JsonObject, JsonValue

__all__ = ["user_change_consequences"]

_SHOWN: Final = 5


def user_change_consequences(evidence: Evidence) -> Iterator[Consequence]:
    """Yield the changes of the user that the operator, or a built-in controller, undoes or replaces."""
    writes: dict[str, list[Entry]] = {}
    for entry in evidence.outcome.user_writes:
        writes.setdefault(entry.key, []).append(entry)
    for key, entries in writes.items():
        # What was created and deleted again within the run is not among the changes.
        change = evidence.outcome.changes.get(key)
        message = _message(entries, change.after if change is not None else None)
        if message:
            subject = subject_of_tree(entries[-1].after or entries[-1].before or {})
            yield Consequence(ConsequenceKind.CHANGE_REVERTED, Severity.WARNING, subject, message)


def _message(entries: Sequence[Entry], end: JsonObject | None) -> str:
    """Return what became of the writes of one object; empty if they last."""
    desired = entries[-1].after
    if desired is None or "deletionTimestamp" in desired["metadata"]:
        former = entries[-1].before
        is_new = end is not None and (former is None or former["metadata"].get("uid") != end["metadata"].get("uid"))
        return "your deletion does not last: it is created again" if is_new else ""
    if end is None or "deletionTimestamp" in end["metadata"]:
        return "your change does not last: it is deleted"
    undone = _undone(entries, end)
    texts = [_text(each, entries[0].before, end) for each in undone[:_SHOWN]]
    rest = len(undone) - _SHOWN
    more = f"; and {rest} more fields" if rest > 0 else ""
    return f"your change does not last: {'; '.join(texts)}{more}" if texts else ""


def _undone(entries: Sequence[Entry], end: JsonObject) -> Sequence[Difference]:
    """Return what differs at the end from the fields that the user wrote; the last write of a field counts."""
    undone: dict[str, Difference] = {}
    later = set[str]()
    for entry in reversed(entries):
        paths = {each.path: each.new for each in _own_differences(entry.before, entry.after)}
        for each in _own_differences(entry.after, end):
            if each.path not in later and _is_among(each, paths):
                undone.setdefault(each.path, each)
        later.update(paths)
        if entry.before is None:
            break
    return list(undone.values())


def _own_differences(before: JsonObject | None, after: JsonObject | None) -> Sequence[Difference]:
    """Return the fields that differ, one for each leaf, without those that the server and the controllers set."""
    changed = new_fields(differences(without_server_set(before), without_server_set(after)))
    return [each for each in changed if each.path.partition(".")[0] != "status"]


def _is_among(difference: Difference, paths: Mapping[str, JsonValue]) -> bool:
    """Whether a field is one that the user set or removed. Others may add fields beside it."""
    if difference.path in paths:
        return True
    return difference.old is not None and any(
        _is_below(difference.path, path) or (value is not None and _is_below(path, difference.path))
        for path, value in paths.items()
    )


def _is_below(path: str, other: str) -> bool:
    return path.startswith((f"{other}.", f"{other}["))


def _text(difference: Difference, former: JsonObject | None, end: JsonObject) -> str:
    """Return that a field goes back to its value before the change, or to another one."""
    is_back = not any(each.path == difference.path for each in _own_differences(former, end))
    visible = without_secret_values(difference) if is_secret(end) else difference
    verb = "goes back" if is_back and former is not None else "goes"
    fields = owners_of(end).items()
    owner = next((name for name, owned in fields if f".{difference.path}" in map(format_path, owned)), "")
    by = f", by {owner}" if owner else ""
    return f"{visible.path} {verb} from {value_text(visible.old)} to {value_text(visible.new)}{by}"
