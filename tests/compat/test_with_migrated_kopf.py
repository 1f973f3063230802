"""Operators of kopf and what ``opsdk migrate kopf`` makes of them do the same, with real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]
OPERATORS = Path(__file__).with_name("kopf_operators")


@pytest.mark.parametrize("name", ["sites", "toys"])
def test_the_migrated_operator_does_the_same(name: str, tmp_path: Path) -> None:
    """It changes nothing that kopf has made, and makes the same from the same examples."""
    folder = OPERATORS / name
    words = ["migrate", "kopf", str(folder / f"{name}_operator.py"), "--output", str(tmp_path / "migrated")]
    options = ["--examples", str(folder / "example.yaml"), "--quiet", "6", "--limit", "60"]
    run = subprocess.run(
        [sys.executable, "-m", "opsdk.cli", *words, *options], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("no difference") + run.stdout.count("no plan") == 3


def test_examples_that_kopf_ignores_prove_nothing(tmp_path: Path) -> None:
    """A comparison of two operators that write nothing has status 1, and says why."""
    operator = tmp_path / "idle.py"
    operator.write_text("import kopf\n\n\n@kopf.on.create('pods')\ndef make(**_): ...\n", encoding="utf-8")
    example = tmp_path / "example.yaml"
    example.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}", encoding="utf-8")
    words = ["migrate", "kopf", str(operator), "--output", str(tmp_path / "migrated"), "--examples", str(example)]
    run = subprocess.run(
        [sys.executable, "-m", "opsdk.cli", *words, "--quiet", "2"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "kopf wrote nothing" in run.stdout
