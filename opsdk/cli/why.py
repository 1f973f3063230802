"""``opsdk why``: prints why objects were reconciled, from the debug pages of a running operator."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from opsdk.cli.output import Output, OutputFormat, print_result
from opsdk.controller.children_tree import format_children, last_attempts
from opsdk.controller.journal import Journal, ReconcileRecord
from opsdk.controller.journal_format import record_from_json, record_to_json
from opsdk.errors import ConnectError, DecodeError, NotFoundError, UsageError

_DEFAULT_URL = "http://127.0.0.1:6060"
# Seconds for the response of the debug page.
_TIMEOUT = 15.0


def why(
    key: Annotated[
        str, typer.Argument(metavar="[NAMESPACE/NAME]", help="the object; NAME for cluster-scoped objects")
    ] = "",
    *,
    controller: Annotated[str, typer.Option(help="only reconciles of this controller")] = "",
    last: Annotated[int, typer.Option(metavar="N", min=0, help="number of reconciles; 0 for all")] = 5,
    not_ready: Annotated[
        bool, typer.Option("--not-ready", help="print the children of the last reconcile, and what it waits for")
    ] = False,
    output: Output = OutputFormat.TEXT,
    url: Annotated[
        str, typer.Option(envvar="OPSDK_DEBUG_URL", help="URL of the operator's debug pages")
    ] = _DEFAULT_URL,
    export_test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write a test that replays the last of these reconciles")
    ] = None,
    operator: Annotated[
        str, typer.Option(metavar="MODULE:NAME", help="the operator that the exported test imports")
    ] = "",
) -> None:
    """Print why an object was reconciled, and which objects were read and written.

    opsdk why default/site

    opsdk why default/site --last 1 --output json

    opsdk why --controller website

    opsdk why default/site --not-ready

    opsdk why default/site --export-test tests/test_replay.py --operator website.operator:make_operator
    """
    if export_test is not None and not operator:
        raise UsageError("--export-test requires --operator, such as website.operator:make_operator")
    if export_test is not None and not_ready:
        raise UsageError("--export-test writes a reconcile, and --not-ready prints children: pass one of them")
    records = _find(url, key, controller)
    if export_test is not None:
        # A late import: the test kit loads the operator stack, which is slow.
        from opsdk.testing.replay import export_test as test_of  # noqa: PLC0415

        export_test.write_text(test_of(records[-1], operator=operator), encoding="utf-8")
        print(f"wrote {export_test}: run it with pytest -p opsdk.testing.plugin")
        return
    if not_ready:
        # Without a name, only the objects that wait.
        records = [r for r in last_attempts(records) if key or any(child.is_unready for child in r.children)]
        lines = [format_children(record) for record in records] or ["no object waits for a child"]
        print_result(output, [record_to_json(record) for record in records], lines)
        return
    records = records[-last:]
    print_result(output, [record_to_json(record) for record in records], map(str, records))


def _find(url: str, key: str, controller: str) -> list[ReconcileRecord]:
    """Return the reconciles of an object, or of all. Raises `NotFoundError` if there are none."""
    records = _fetch(url)
    namespace, _, name = key.rpartition("/")
    journal = Journal(size=len(records), max_bytes=sys.maxsize)
    for record in records:
        journal.add(record)
    records = [*journal.find(controller=controller, namespace=namespace if name else None, name=name)]
    if not records:
        raise NotFoundError(
            f"the journal at {url} has no reconcile of {key or 'any object'}"
            + (f" by controller {controller}" if controller else "")
        )
    return records


def _fetch(url: str) -> list[ReconcileRecord]:
    """Return the journal of the operator at `url`."""
    page = f"{url.rstrip('/')}/debug/reconciles"
    if not page.startswith(("http://", "https://")):
        raise UsageError(f"--url is {url!r}: write http://host:port")
    try:
        with urllib.request.urlopen(page, timeout=_TIMEOUT) as response:  # noqa: S310 - the scheme is checked above
            rows = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise NotFoundError(f"{page}: {error}. Is this the debug address of an operator?") from error
    except OSError as error:
        raise ConnectError(
            f"{page} cannot be reached: {error}. Start the operator with --debug-bind-address, or forward its port"
        ) from error
    except ValueError as error:
        raise DecodeError(f"{page} did not return JSON: {error}") from error
    return [record_from_json(row) for row in rows]
