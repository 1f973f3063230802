"""Evaluates rules over samples with Debian's promtool: which alerts fire, and when."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from monitored_simulation import INTERVAL, Scrapes

from opsdk.structured_merge.value import JsonObject

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of Debian's package prometheus")

_FIRING = 'group by (alertname) (ALERTS{alertstate="firing"})'
_GOT = re.compile(r"time: (\S+?),\s+(?:exp: .*?)got:\s*(.*)", re.DOTALL)


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


def firing(
    folder: Path, groups: Sequence[JsonObject], runs: Mapping[str, Scrapes], times: Mapping[str, Sequence[int]]
) -> dict[str, dict[int, frozenset[str]]]:
    """Return which alerts fire in each run at some of its seconds.

    A test of promtool that expects no sample fails where an alert fires, and prints it.
    """
    assert PROMTOOL is not None
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}), encoding="utf-8")
    names = names_in(groups)
    alerts: dict[str, dict[int, frozenset[str]]] = {}
    for name, scrapes in runs.items():
        test = {
            "interval": f"{INTERVAL}s",
            "name": name,
            "input_series": values_of(scrapes, names),
            "promql_expr_test": [
                {"expr": _FIRING, "eval_time": f"{second}s", "exp_samples": [{"labels": '{x="none"}', "value": 0}]}
                for second in times[name]
            ],
        }
        document = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{INTERVAL}s", "tests": [test]}
        (folder / "test.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        command = [PROMTOOL, "test", "rules", "test.yaml"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        alerts[name] = _read(done.stdout + done.stderr, times[name])
    return alerts


def _read(output: str, times: Sequence[int]) -> dict[int, frozenset[str]]:
    """Return the alerts in the failures that promtool prints, by second."""
    rows: dict[int, frozenset[str]] = {}
    for part in output.split("expr: ")[1:]:
        time = re.search(r"time: (?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", part)
        assert time is not None, part
        hours, minutes, seconds = (int(group or 0) for group in time.groups())
        _, _, got = part.partition("got:")
        rows[hours * 3600 + minutes * 60 + seconds] = frozenset(re.findall(r'alertname="(\w+)"', got))
    assert set(rows) == set(times), output
    return rows
