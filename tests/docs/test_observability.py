"""What docs/observability.md shows is what runs."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from opsdk.builder.operator import Operator
from opsdk.builder.recorded_run import add_recording_report
from opsdk.manager.manager import Manager
from opsdk.recording.status import RecordingStatus
from opsdk.structured_merge.value import JsonObject

PAGE = (Path(__file__).resolve().parents[2] / "docs/observability.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
async def test_the_examples_pass_as_they_stand(number: int) -> None:
    """Each block is a program of its own."""
    if "opentelemetry" in BLOCKS[number]:
        pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: pip install opsdk[dev]")
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    scope: JsonObject = {}
    try:
        exec(BLOCKS[number], scope)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.getLogger("opsdk.requests").setLevel(logging.NOTSET)
        logging.setLogRecordFactory(factory)


async def test_every_metric_of_the_table_exists() -> None:
    """Names in the table are those of the registry, and every metric of the registry is in the table."""
    environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra")
    operator = Operator("shop")
    operator.setup(lambda _: None)
    async with environment.Environment() as env:
        manager: Manager = operator.prepare(env.config)
        add_recording_report(manager, lambda: RecordingStatus(directory="", since=0.0), save=print)
        families = {family.name for family in text_string_to_metric_families(manager.metrics.expose().decode())}
        await operator.cluster.aclose()
    table = PAGE[PAGE.index("| metrics | labels") : PAGE.index("**TLS.**")]
    prefixes = ("process_", "python_", "controller_runtime_", "workqueue_")
    documented = set()
    for row in table.strip().splitlines()[2:]:
        names = re.findall(r"`([a-z_*]+)`", row.split("|")[1])
        first = names[0] if names else ""
        for name in names:
            stem = re.match(r"(rest_client|opsdk_informer|controller_runtime_reconcile|workqueue)", first)
            full = f"{stem[1] if stem else ''}{name}" if name.startswith("_") else name
            documented.add(full.removesuffix("_total"))
    known_names = {name.removesuffix("_total") for name in families}
    assert not {name for name in documented if "*" not in name and name not in known_names}
    undocumented = {name for name in known_names if not name.startswith(prefixes) and name not in documented}
    assert undocumented <= {"opsdk_informer_undecodable", "opsdk_informer_function_failures"}
