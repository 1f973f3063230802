"""``opsdk why``: why objects were reconciled, from the debug pages of a running operator."""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from opsdk.controller.journal import Journal, ReconcileRecord
from opsdk.controller.journal_format import record_from_json, record_to_json
from opsdk.errors import ConnectError, DecodeError, NotFoundError, UsageError

_VARIABLE = "OPSDK_DEBUG_URL"
_DEFAULT_URL = "http://127.0.0.1:6060"
# Seconds for the response of the debug page.
_TIMEOUT = 15.0

_EXAMPLES = """examples:
  opsdk why default/site                     the last reconciles of one object
  opsdk why default/site --last 1 --output json
  opsdk why --controller website             all objects of one controller
  opsdk why default/site --export-test tests/test_replay.py --operator website.operator:make_operator

The operator serves its debug pages with --debug-bind-address=127.0.0.1:6060. In a cluster:
  kubectl port-forward pod/NAME 6060
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "why",
        help="why an object was reconciled, and what was read and written",
        description="Prints the last reconciles of a running operator: causes, reads, requests, result.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("object", nargs="?", default="", metavar="NAMESPACE/NAME", help="or NAME without a namespace")
    parser.add_argument("--controller", default="", help="only reconciles of this controller")
    parser.add_argument("--last", type=int, default=5, metavar="N", help="number of reconciles, default 5; 0 for all")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument(
        "--url",
        default=os.environ.get(_VARIABLE, _DEFAULT_URL),
        help=f"of the operator's debug pages, default ${_VARIABLE} or {_DEFAULT_URL}",
    )
    parser.add_argument("--export-test", metavar="FILE", help="write a test that replays the last of these reconciles")
    parser.add_argument("--operator", metavar="MODULE:NAME", help="the operator that the exported test imports")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print or export the records. Returns the exit status."""
    if arguments.last < 0:
        raise UsageError(f"--last is {arguments.last}: pass a number of reconciles, or 0 for all")
    if arguments.export_test and not arguments.operator:
        raise UsageError("--export-test needs --operator, such as website.operator:make_operator")
    records = _fetch(arguments.url)
    namespace, _, name = arguments.object.rpartition("/")
    journal = Journal(size=len(records), max_bytes=sys.maxsize)
    for record in records:
        journal.add(record)
    records = [*journal.find(controller=arguments.controller, namespace=namespace if name else None, name=name)]
    if not records:
        raise NotFoundError(
            f"the journal at {arguments.url} has no reconcile of {arguments.object or 'any object'}"
            + (f" by controller {arguments.controller}" if arguments.controller else "")
        )
    if arguments.export_test:
        # Imported here for start-up time: the test kit loads the operator.
        from opsdk.testing.replay import export_test  # noqa: PLC0415

        Path(arguments.export_test).write_text(export_test(records[-1], operator=arguments.operator), encoding="utf-8")
        print(f"wrote {arguments.export_test}: run it with pytest -p opsdk.testing.plugin")
        return 0
    records = records[-arguments.last :]
    if arguments.output == "json":
        json.dump([record_to_json(record) for record in records], sys.stdout, indent=2)
        print()
    else:
        print("\n".join(map(str, records)))
    return 0


def _fetch(url: str) -> list[ReconcileRecord]:
    """Return the journal of the operator at `url`."""
    page = f"{url.rstrip('/')}/debug/reconciles"
    if not page.startswith(("http://", "https://")):
        raise UsageError(f"--url is {url!r}: write http://host:port")
    try:
        with urllib.request.urlopen(page, timeout=_TIMEOUT) as response:  # noqa: S310 - the scheme is checked above
            rows = json.load(response)
    except urllib.error.HTTPError as error:
        raise NotFoundError(f"{page}: {error}. Is this the debug address of an operator?") from error
    except OSError as error:
        raise ConnectError(
            f"{page} cannot be reached: {error}. Start the operator with --debug-bind-address, or forward its port"
        ) from error
    except ValueError as error:
        raise DecodeError(f"{page} returned no JSON: {error}") from error
    return [record_from_json(row) for row in rows]
