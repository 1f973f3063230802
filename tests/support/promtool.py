"""Evaluates rules over samples with Debian's promtool: which alerts fire, and when."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from monitored_simulation import INTERVAL, Scrapes

from opsdk.monitoring.declaration import MonitoredOperator
from opsdk.monitoring.rules import rule_groups
from opsdk.structured_merge.value import JsonObject

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of Debian's package prometheus")

_FIRED = 'group by (alertname) (count_over_time(ALERTS{{alertstate="firing"}}[{}s]))'


def values_of(scrapes: Scrapes, names: frozenset[str]) -> list[JsonObject]:
    """Return the series with some names in the notation of promtool; ``_`` stands for a missing sample."""
    rows = []
    for series, samples in scrapes.samples.items():
        if series.partition("{")[0] in names:
            values = " ".join(samples.get(position, "_") for position in range(scrapes.count))
            rows.append({"series": series, "values": values.replace("+Inf", "Inf")})
    return rows


def names_in(groups: Sequence[JsonObject]) -> frozenset[str]:
    """Return all words of the queries: the names of metrics are among them."""
    queries = [rule["expr"] for group in groups for rule in group["rules"]]
    return frozenset(re.findall(r"[a-zA-Z_:][\w:]*", " ".join(queries)))


def fired(folder: Path, operator: MonitoredOperator, scrapes: Scrapes, *times: int) -> list[frozenset[str]]:
    """Return the alerts that have fired until each of these seconds; without any, until the end.

    The rules are evaluated at each scrape. A test of promtool that expects a wrong sample fails, and prints what it got
    instead.
    """
    assert PROMTOOL is not None
    groups = rule_groups(operator)
    seconds = times or ((scrapes.count - 1) * INTERVAL,)
    wrong = [{"labels": '{x="none"}', "value": 0}]
    test = {
        "interval": f"{INTERVAL}s",
        "input_series": values_of(scrapes, names_in(groups)),
        "promql_expr_test": [
            {"expr": _FIRED.format(time + 1), "eval_time": f"{time}s", "exp_samples": wrong} for time in seconds
        ],
    }
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{INTERVAL}s", "tests": [test]}
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    (folder / "test.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    command = [PROMTOOL, "test", "rules", "test.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    outputs = (done.stdout + done.stderr).split("expr: ")[1:]
    assert len(outputs) == len(seconds), done.stdout + done.stderr
    return [frozenset(re.findall(r'alertname="(\w+)"', output.partition("got:")[2])) for output in outputs]
