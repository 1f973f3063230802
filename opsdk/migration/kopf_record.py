"""What kopf keeps on an object: the state that its handlers last handled, and the progress of handlers. Pure.

An operator that was migrated from kopf reads and writes the same annotations, so it knows which objects were created
under kopf, and kopf can take over again.

Upstream: kopf/_cogs/configs/diffbase.py, progress.py, conventions.py; _cogs/structs/diffs.py (1.45)
Deviates: reads keys of the second version only; both versions are equal for prefixes of up to 36 characters.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from opsdk.base.options import Options
from opsdk.errors import TerminalError
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject

__all__ = ["DiffItem", "HandlerProgress", "KopfNames"]

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MANAGED: Final = "kopf-managed"
_KNOWN_PREFIXES: Final = ("kopf.zalando.org", "kopf.dev")
_MAX_NAME: Final = 63
MISSING: Final = object()
"""The value of a field that does not exist."""


class KopfNames(Options, frozen=True, kw_only=True):
    """Names under which a kopf operator keeps its records: ``settings.persistence`` of kopf.

    Attributes:
        prefix: of the annotations.
        key: of the annotation with the state that was last handled.
        status: field below the status with the progress of handlers, in operators that keep it there too.
    """

    prefix: str = "kopf.zalando.org"
    key: str = "last-handled-configuration"
    status: str = "kopf"

    def annotation(self, name: str) -> str:
        """Return the annotation of a handler, or of `key`.

        >>> KopfNames().annotation("resize/spec.size")
        'kopf.zalando.org/resize.spec.size'
        """
        safe = name.replace("/", ".").replace("<", "_").replace(">", "_")
        if len(name) <= _MAX_NAME:
            return f"{self.prefix}/{safe}"
        digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
        suffix = f"-{base64.b64encode(digest, altchars=b'-.').decode()}".rstrip("=-.")
        return f"{self.prefix}/{safe[: _MAX_NAME - len(suffix)]}{suffix}"


class HandlerProgress(msgspec.Struct, omit_defaults=True):
    """The progress of one handler, as kopf writes it. Times are in ISO 8601.

    Attributes:
        started: time of the first call.
        stopped: time of the success, or of the final failure.
        delayed: time of the next call.
        purpose: why the handler is called: ``create``, ``update``, ``resume`` or ``delete``.
        retries: number of calls.
        success: whether it succeeded, so that it is not called again.
        failure: whether it failed for good.
        message: of the last error.
    """

    started: str | None = None
    stopped: str | None = None
    delayed: str | None = None
    purpose: str | None = None
    retries: int = 0
    success: bool = False
    failure: bool = False
    message: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the handler is not called again."""
        return self.success or self.failure


class DiffItem(NamedTuple):
    """A difference as kopf passes it to handlers.

    Attributes:
        operation: ``add``, ``change`` or ``remove``.
        field: the path; empty for the whole value.
        old: the old value; None if there was none.
        new: the new value; None if there is none.
    """

    operation: str
    field: tuple[str, ...]
    old: Any
    new: Any


# ------------------------------------------------------------------ the handled state
def essence_of(tree: JsonObject, extra_fields: Sequence[str] = ()) -> JsonObject:
    """Return the part of an object whose changes count: all but status and system metadata.

    Args:
        tree: the object.
        extra_fields: paths that count too, such as ``status.phase``.
    """
    essence = {name: value for name, value in tree.items() if name not in ("apiVersion", "kind", "metadata", "status")}
    essence = copy.deepcopy(essence)
    metadata = tree.get("metadata") or {}
    annotations = _without_records(metadata.get("annotations") or {})
    members = {"labels": dict(metadata.get("labels") or {}), "annotations": annotations}
    if tracked := {name: value for name, value in members.items() if value}:
        essence["metadata"] = tracked
    for path in extra_fields:
        if (value := value_at(tree, path)) is not MISSING:
            _set_value(essence, field_path(path), copy.deepcopy(value))
    return essence


def _without_records(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that no kopf operator wrote for itself, and not kubectl either."""
    prefixes = {key.partition("/")[0] for key in annotations if key.endswith(f"/{_MANAGED}")}
    prefixes |= {
        prefix
        for prefix in (key.partition("/")[0] for key in annotations if "/" in key)
        if any(prefix == other or prefix.endswith(f".{other}") for other in _KNOWN_PREFIXES)
    }
    return {
        key: value
        for key, value in annotations.items()
        if key != _LAST_APPLIED and key.partition("/")[0] not in prefixes
    }


def last_handled(tree: JsonObject, names: KopfNames) -> JsonObject | None:
    """Return the essence that was last handled; None for an object whose creation was not.

    Raises:
        TerminalError: the annotation is not a JSON object. A guess could create everything a second time.
    """
    annotations = (tree.get("metadata") or {}).get("annotations") or {}
    key = names.annotation(names.key)
    text = annotations.get(key)
    if text is None:
        text = value_at(tree, f"status.{names.status}.{names.key}")
        key = f"status.{names.status}.{names.key}"
    if text is MISSING or text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (*JSON_ERRORS, TypeError) as error:
        raise TerminalError(
            f"{key} is not a JSON object ({error}): remove it to handle the object as a new one, or write the spec "
            "that was handled"
        ) from error


def handled_annotations(essence: JsonObject, tree: JsonObject, names: KopfNames) -> dict[str, str | None]:
    """Return the annotations that record `essence` as handled."""
    written: dict[str, str | None] = {
        names.annotation(names.key): json.dumps(essence, separators=(",", ":")) + "\n",
    }
    annotations = (tree.get("metadata") or {}).get("annotations") or {}
    marker = f"{names.prefix}/{_MANAGED}"
    if not names.prefix.startswith("kopf.") and marker not in annotations:
        written[marker] = "yes"
    return written


# ------------------------------------------------------------------ progress
def progress_of(tree: JsonObject, handler_id: str, names: KopfNames) -> HandlerProgress:
    """Return the progress of a handler; an empty one if it was not called, or if the record is malformed."""
    annotations = (tree.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(names.annotation(handler_id))
    try:
        if text is not None:
            return msgspec.json.decode(text, type=HandlerProgress)
        progress = value_at(tree, f"status.{names.status}.progress")
        if isinstance(progress, Mapping) and handler_id in progress:
            return msgspec.convert(progress[handler_id], HandlerProgress)
    except (*JSON_ERRORS, msgspec.ValidationError):
        return HandlerProgress()
    return HandlerProgress()


def progress_text(progress: HandlerProgress) -> str:
    """Return the annotation of a progress."""
    return msgspec.json.encode(progress).decode()


def has_status_progress(tree: JsonObject, names: KopfNames) -> bool:
    """Whether the status has progress of handlers."""
    return bool(value_at(tree, f"status.{names.status}") not in (MISSING, None))


def time_of(text: str | None) -> datetime | None:
    """Return a time of a progress; None without one, or if it is malformed.

    >>> time_of("2026-01-02T03:04:05.000000").isoformat()
    '2026-01-02T03:04:05+00:00'
    """
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


# ------------------------------------------------------------------ fields and differences
def field_path(field: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of a path.

    >>> field_path("spec.size")
    ('spec', 'size')
    """
    return tuple(field.split(".")) if isinstance(field, str) else tuple(field)


def value_at(tree: Any, field: str | Sequence[str]) -> Any:
    """Return the value of a path; `MISSING` if it does not exist."""
    for name in field_path(field):
        if not isinstance(tree, Mapping) or name not in tree:
            return MISSING
        tree = tree[name]
    return tree


def _set_value(tree: JsonObject, names: Sequence[str], value: Any) -> None:
    for name in names[:-1]:
        tree = tree.setdefault(name, {})
    tree[names[-1]] = value


def differences(old: Any, new: Any, path: tuple[str, ...] = ()) -> Iterator[DiffItem]:
    """Yield what differs: values that were added, removed and changed. A list is one value.

    >>> list(differences({"a": 1}, {"a": 2}))
    [DiffItem(operation='change', field=('a',), old=1, new=2)]
    """
    if old == new:
        return
    if old is None:
        yield DiffItem("add", path, old, new)
    elif new is None:
        yield DiffItem("remove", path, old, new)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted(old.keys() | new.keys()):
            yield from differences(old.get(name), new.get(name), (*path, name))
    else:
        yield DiffItem("change", path, old, new)
