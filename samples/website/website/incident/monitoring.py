"""The metrics of the operator, and Prometheus with its alerts."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
import urllib.request
from pathlib import Path
from typing import Any

from opsdk.structured_merge.value import JsonObject

FASTER = 15
"""The rules are evaluated so many times as often, and their alerts wait so many times shorter: a demo is no night."""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_CONFIG = """
global: {{scrape_interval: 1s}}
rule_files: [rules.yaml]
scrape_configs:
- job_name: {job}
  static_configs: [{{targets: ["{address}"]}}]
"""


def prometheus() -> str:
    """Return the path of the program; empty if it is not installed."""
    return shutil.which("prometheus") or ""


def write_config(folder: Path, *, job: str, metrics: str) -> None:
    """Write the configuration of Prometheus, and the rules that ``opsdk generate monitoring`` has written.

    Args:
        folder: has the generated files in ``monitoring``.
        job: the label ``job`` of the metrics.
        metrics: host and port of the metrics.
    """
    rule = (folder / "monitoring/prometheus_rule.yaml").read_text(encoding="utf-8")
    # The spec is the last key: those of generated files are sorted.
    text = faster(textwrap.dedent(rule.partition("\nspec:\n")[2]))
    (folder / "rules.yaml").write_text(text, encoding="utf-8")
    (folder / "prometheus.yml").write_text(_CONFIG.format(job=job, address=metrics), encoding="utf-8")


def faster(rules: str) -> str:
    """Return groups of rules with shorter intervals and ``for``. Their queries stay as they are.

    >>> print(faster("- interval: 15s"), faster("  for: 60s"))
    - interval: 1s   for: 4s
    """
    return re.sub(r"(?m)^([ -]*(?:interval|for): )(\d+)s$", lambda match: f"{match[1]}{_shorter(match[2])}", rules)


def _shorter(seconds: str) -> str:
    return f"{max(int(seconds) // FASTER, 1)}s"


def firing(url: str, name: str) -> JsonObject | None:
    """Return an alert of a Prometheus; None while it does not fire."""
    for alert in _read_json(f"{url}/api/v1/alerts")["data"]["alerts"]:
        if alert["labels"]["alertname"] == name and alert["state"] == "firing":
            return dict(alert)
    return None


def is_scraped(url: str, job: str) -> bool:
    """Whether a Prometheus runs and has read the metrics of a job."""
    try:
        targets = _read_json(f"{url}/api/v1/targets")["data"]["activeTargets"]
    except OSError:
        return False
    return any(target["labels"]["job"] == job and target["health"] == "up" for target in targets)


def metric_lines(url: str, *names: str) -> list[str]:
    """Return the samples of some metrics of an operator, as its page has them."""
    lines = _read(f"{url}/metrics").decode().splitlines()
    return [line for line in lines if line.startswith(tuple(f"{name}{{" for name in names))]


def _read_json(url: str) -> Any:
    return json.loads(_read(url))


def _read(url: str) -> bytes:
    with _OPENER.open(url, timeout=10) as response:
        return bytes(response.read())
