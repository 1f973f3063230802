"""``opsdk cleanup --finalizers`` against a server, over a real socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from opsdk import Cluster, ObjectMeta
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.cli.__main__ import main

environment = pytest.importorskip("envtest.environment", reason="needs the envtest extra: pip install opsdk[envtest]")
pytestmark = pytest.mark.realtime
NAME = "controller.cattle.io/dns"


async def test_finalizers_are_removed_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finalizers are removed by name, only with --yes, and of one kind with --kind. JSON has the same rows."""
    async with environment.Environment() as env, Cluster(env.config) as outside:
        web = await env.serve()
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(env.kubeconfig(web))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        for kind in (ConfigMap, Secret):
            meta = ObjectMeta(name="a", namespace="default", finalizers=[NAME, "x.example.com/y"])
            await outside.uncached.create(kind(metadata=meta))

        async def cleanup(*words: str) -> int:
            return await asyncio.to_thread(main, ["cleanup", "--finalizers", NAME, *words])

        assert await cleanup("--dry-run") == 0
        assert capsys.readouterr().out.splitlines() == [
            f"ConfigMap default/a: would remove finalizer {NAME}",
            f"Secret default/a: would remove finalizer {NAME}",
        ]
        assert await cleanup("--kind", "secrets", "--yes", "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == [
            {"subject": "Secret default/a", "action": f"remove finalizer {NAME}", "done": True}
        ]
        assert await cleanup("--namespace", "default", "--yes") == 0
        assert capsys.readouterr().out == f"ConfigMap default/a: remove finalizer {NAME}\n"
        assert (await outside.uncached.get(ConfigMap, "default/a")).metadata.finalizers == ["x.example.com/y"]
        assert await cleanup("--kind", "nonsense", "--yes") == 1
        assert "serves no resource nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--kind", "secrets", "--yes"], "require --finalizers"),
        (["--finalizers", "a/b", "--definitions", "--yes"], "exclusive with the operator"),
    ],
)
def test_options_that_contradict_each_other(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad input: one line says which options do not go together."""
    assert main(["cleanup", *words]) == 1
    assert text in capsys.readouterr().err
