"""The debug pages of an operator: the process, and what its journal says."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Callable, Mapping

from opsdk.aio.clock import utc_now
from opsdk.base.version import VERSION
from opsdk.controller.journal import Journal
from opsdk.controller.journal_format import record_to_json
from opsdk.controller.journal_summary import last_errors, slowest_keys
from opsdk.manager.debug import DebugPages, rss_bytes


def add_operator_pages(pages: DebugPages, name: str, journal: Callable[[], Journal], *, objects: bool) -> None:
    """Add the pages to those of the manager.

    Args:
        pages: of the manager.
        name: the operator's name.
        journal: returns the journal of its reconciles, which a reload replaces.
        objects: also show the objects that reconciles read.
    """

    def process() -> Mapping[str, object]:
        return {
            "operator": name,
            "host": os.environ.get("HOSTNAME") or socket.gethostname(),
            "pid": os.getpid(),
            "opsdk": VERSION,
            "python": platform.python_version(),
            "rss_bytes": rss_bytes(),
            "journal": {"size": journal().size, "reconciles": len(journal())},
        }

    pages.add("process", process, description="operator, host, versions and memory, without counting objects")
    pages.add(
        "reconciles",
        lambda: [record_to_json(record, objects=objects) for record in journal().find()],
        description="the last reconciles: causes, reads, requests, result",
    )
    pages.add(
        "slowest",
        lambda: slowest_keys(journal().find()),
        description="the keys that took most time in the last reconciles",
    )
    pages.add(
        "errors",
        lambda: last_errors(journal().find(), utc_now()),
        description="the last error of each key that failed last",
    )
