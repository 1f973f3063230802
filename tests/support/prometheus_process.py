"""A Prometheus process over backfilled samples, for queries."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from monitored_simulation import INTERVAL, Scrapes
from promtool import PROMTOOL

PROMETHEUS = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None, reason="needs prometheus and promtool, of Debian's package prometheus"
)
BEGIN = 1_700_000_000
"""Unix time of the first sample."""


def open_metrics(scrapes: Scrapes) -> str:
    """Return the samples with their timestamps, as promtool reads them. Every series is of unknown type."""
    lines = []
    by_name: dict[str, list[str]] = {}
    for series in scrapes.samples:
        by_name.setdefault(series.partition("{")[0], []).append(series)
    for name, rows in by_name.items():
        lines.append(f"# TYPE {name} unknown")
        for series in rows:
            samples = scrapes.samples[series].items()
            lines += [f"{series} {value} {BEGIN + position * INTERVAL}" for position, value in samples]
    return "\n".join([*lines, "# EOF", ""])


class Prometheus:
    """The HTTP API of a running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, text: str, at: float) -> Sequence[Any]:
        """Return the samples of an instant query. Raises AssertionError with the message of Prometheus."""
        body = urllib.parse.urlencode({"query": text, "time": at}).encode()
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/query", data=body, timeout=60) as response:
                rows: Sequence[Any] = json.load(response)["data"]["result"]
                return rows
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{text}: {error.read().decode()}") from error


@contextmanager
def running_prometheus(folder: Path, scrapes: Scrapes) -> Iterator[Prometheus]:
    """Run Prometheus over the samples, without scrapes of its own."""
    assert PROMETHEUS is not None
    assert PROMTOOL is not None
    (folder / "samples.txt").write_text(open_metrics(scrapes), encoding="utf-8")
    (folder / "prometheus.yml").write_text("global: {}\n", encoding="utf-8")
    data = folder / "data"
    blocks = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", str(folder / "samples.txt"), str(data)]
    subprocess.run(blocks, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    command = [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait_ready(f"http://{address}", process)
            yield Prometheus(f"http://{address}")
        finally:
            process.terminate()


def _wait_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "Prometheus has ended"
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("Prometheus is not ready")
