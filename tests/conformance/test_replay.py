"""The API server against recorded conversations with a real one, where the recordings lie beside this clone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REPLAY = ROOT.parent / "shared/conformance/replay.py"
TOKENS = 'admintoken,admin,admin-uid,"system:masters"\nusertoken,alice,alice-uid,"devs"\n'
# Steps answered as a real server does, by area: a floor that only rises. The rest is the next work on the server.
FLOORS = {
    "admission": 176,
    "apply": 146,
    "auth": 277,
    "builtin": 695,
    "cel": 167,
    "crd": 324,
    "crd-validation": 174,
    "crd-versions": 112,
    "crud": 231,
    "delete": 81,
    "discovery": 40,
    "dryrun": 25,
    "events": 44,
    "leases": 10,
    "list": 112,
    "namespaces": 43,
    "negotiation": 55,
    "patch": 132,
    "policy": 128,
    "subresources": 40,
    "validation": 28,
    "watch": 68,
}

# (conversation, step) -> why the answer differs from the real server's. Nothing else may differ.
DIFFERENCES = {
    ("crd-openapi", 3): "the descriptions of apiVersion, kind and metadata are upstream's prose",
    ("crd-openapi", 5): "as step 3, in OpenAPI v2",
}

# Areas that share a server, in groups of about the same time: most of it is waiting.
GROUPS = (
    ("admission", "policy", "auth"),
    ("builtin", "watch"),
    ("crd", "crd-validation"),
    tuple(sorted(FLOORS.keys() - {"admission", "auth", "builtin", "crd", "crd-validation", "policy", "watch"})),
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A fresh server with the users that the recordings know; its URL."""
    if not REPLAY.exists():
        pytest.skip("the recorded conversations are not beside this clone (../shared/conformance)")
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(TOKENS)
    command = [sys.executable, "-m", "envtest", "serve", "--port", "0", "--token-auth-file", str(tokens)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix("ready ")
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.behaviour(143, better="the differences are listed, and a new one fails")
@pytest.mark.parametrize("areas", GROUPS, ids=lambda areas: areas[0])
def test_no_area_falls_behind(areas: tuple[str, ...], server: str, tmp_path: Path) -> None:
    """Every area answers as the real server did, but for the differences that are listed here."""
    results = tmp_path / "results.json"
    command = [sys.executable, str(REPLAY), "--server", server, "--token", "admintoken", "--json", str(results)]
    done = subprocess.run([*command, *areas], check=False, capture_output=True, text=True, timeout=380)
    assert results.exists(), done.stderr
    good: Counter[str] = Counter()
    scenarios = json.loads(results.read_text())
    for scenario in scenarios:
        good[scenario["area"]] += sum(step["essential"] for step in scenario["steps"])
    behind = {area: (good[area], FLOORS[area]) for area in areas if good[area] < FLOORS[area]}
    assert not behind, f"area: (answered, floor) = {behind}\n{done.stdout}"
    different = {(s["name"], step["step"]) for s in scenarios for step in s["steps"] if not step["essential"]}
    assert different <= DIFFERENCES.keys(), done.stdout
