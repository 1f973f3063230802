"""The picture of a trace: columns are the number of writes before a reconcile."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk: pip install opsdk[dev]")
from tools.generate.trace_diagram import TracedReconcile, render_trace


def reconcile(operator: str, *links: int, **writes: int) -> TracedReconcile:
    """A reconcile with its writes: their names and span ids."""
    ids = {span_id: name for name, span_id in writes.items()}
    return TracedReconcile(operator=operator, name="reconcile <a>", target="b", span_ids=ids, links=links)


def test_a_reconcile_stands_after_its_causes() -> None:
    """Each link is an arrow, and each write moves its successors one column to the right."""
    chain = [reconcile("a", first=1), reconcile("b", 1, second=2), reconcile("c", 2), reconcile("c", 1, 2)]
    text = render_trace(chain)
    columns = [int(x) for x in re.findall(r'class="reconcile" x="(\d+)"', text)]
    assert columns[0] < columns[1] < columns[2] == columns[3]
    assert text.count('class="link"') == 4


def test_names_are_escaped() -> None:
    """Names of objects come from clusters."""
    text = render_trace([reconcile("<&>")])
    assert ">&lt;&amp;&gt;</text>" in text
    assert ">reconcile &lt;a&gt; b</text>" in text
