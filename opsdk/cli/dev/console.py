"""The console of ``opsdk dev``. `view_of` reads an operator, `render` builds the screen."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from opsdk.builder.operator import Operator
from opsdk.cache.health import InformerHealth
from opsdk.controller.journal import ReconcileRecord

_RECORDS = 8
_MAX_ERROR = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRow:
    """The current state of one controller.

    Attributes:
        name: of the controller.
        state: of its life cycle.
        queued: requests in the work queue.
        running: active reconciles.
        reconciles: in the journal.
        errors: failed reconciles in the journal.
    """

    name: str
    state: str
    queued: int
    running: int
    reconciles: int
    errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The content of the screen.

    Attributes:
        title: the first line.
        message: the last event, such as a reload.
        failed: whether `message` is a failure.
        controllers: of the operator.
        informers: of its cluster.
        records: the last reconciles, the newest first.
    """

    title: str
    message: str = ""
    failed: bool = False
    controllers: tuple[ControllerRow, ...] = ()
    informers: tuple[InformerHealth, ...] = ()
    records: tuple[ReconcileRecord, ...] = ()


def view_of(operator: Operator | None, *, title: str, message: str = "", failed: bool = False) -> View:
    """Return the view of an operator; None means that it could not be loaded yet."""
    if operator is None:
        return View(title=title, message=message, failed=failed)
    records = list(operator.journal.find())
    rows = []
    for name, controller in operator.controllers.items():
        own = [record for record in records if record.controller == name]
        rows.append(
            ControllerRow(
                name=name,
                state=controller.state.value,
                queued=len(controller.queue.core),
                running=len(controller.queue.core.processing()),
                reconciles=len(own),
                errors=sum(record.result == "error" for record in own),
            )
        )
    return View(
        title=title,
        message=message,
        failed=failed,
        controllers=tuple(rows),
        informers=tuple(operator.cluster.cache.health()),
        records=tuple(islice(reversed(records), _RECORDS)),
    )


def render(view: View) -> RenderableType:
    """Return the screen."""
    parts: list[RenderableType] = [Text(view.title, style="bold")]
    if view.message:
        parts.append(Text(view.message, style="red" if view.failed else "green"))
    if view.controllers:
        parts.append(_controllers(view))
    if view.informers:
        parts.append(_informers(view))
    if view.records:
        parts.append(_records(view))
    return Group(*parts)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left", expand=True)
    for column in columns:
        name, _, right = column.partition(">")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    return table


def _controllers(view: View) -> Table:
    table = _table("controller", "state", "queued>r", "running>r", "reconciles>r", "errors>r")
    for row in view.controllers:
        counts = (str(row.queued), str(row.running), str(row.reconciles))
        errors = Text(str(row.errors), style="red" if row.errors else "")
        table.add_row(Text(row.name), row.state, *counts, errors)
    return table


def _informers(view: View) -> Table:
    table = _table("informer", "state", "objects>r", "last contact>r", "error")
    for health in view.informers:
        age = "" if health.seconds_since_contact is None else f"{health.seconds_since_contact:.0f} s"
        error = _truncate(str(health.last_error)) if health.last_error is not None else ""
        table.add_row(Text(health.name), health.state.value, str(health.objects), age, Text(error, style="red"))
    return table


def _records(view: View) -> Table:
    table = _table("time", "object", "cause", "requests>r", "ms>r", "result")
    for record in view.records:
        key = f"{record.namespace}/{record.name}" if record.namespace else record.name
        result = f"{record.result}: {_truncate(record.detail)}" if record.detail else record.result
        table.add_row(
            f"{record.started_at:%H:%M:%S}",
            Text(f"{record.controller} {key}"),
            Text(str(record.causes[-1])) if record.causes else "",
            str(len(record.requests) + record.more_requests),
            f"{record.seconds * 1e3:.1f}",
            Text(result, style="red" if record.result == "error" else ""),
        )
    return table


def _truncate(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _MAX_ERROR else f"{line[: _MAX_ERROR - 1]}…"
