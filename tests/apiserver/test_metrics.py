"""Latencies of admission and storage: what clients name takes bounded memory."""

from __future__ import annotations

import pytest

from opsdk.apiserver import metrics
from opsdk.apiserver.metrics import AdmissionMetrics, StorageMetrics


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most four sets of labels."""
    monkeypatch.setattr(metrics, "_MOST", 4)


def counts(collected: StorageMetrics | AdmissionMetrics, label: str) -> dict[str, float]:
    """The number of observations by a label."""
    samples = [sample for metric in collected.collect() for sample in metric.samples]
    return {each.labels[label]: each.value for each in samples if each.name.endswith("_count") and label in each.labels}


def test_resources_that_come_and_go_take_bounded_memory() -> None:
    """Further resources share an empty name, and those that are known keep theirs."""
    storage = StorageMetrics(lambda: 1.0)
    for number in range(10):
        storage.observe("get", f"example.com/kind{number}", 0.5)
    storage.observe("get", "example.com/kind0", 0.5)
    assert counts(storage, "resource") == {"kind0": 2, "kind1": 1, "kind2": 1, "kind3": 1, "": 6}


def test_webhooks_that_come_and_go_take_bounded_memory() -> None:
    """As with resources."""
    admission = AdmissionMetrics()
    for number in range(10):
        admission.observe_webhook(0.5, f"hook-{number}", "admit", "CREATE", rejected=False)
    assert counts(admission, "name") == {"hook-0": 1, "hook-1": 1, "hook-2": 1, "hook-3": 1, "": 6}
