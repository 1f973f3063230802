"""``opsdk plan --shadow`` as a process, beside the operator as another one, on an API server with real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.realtime, pytest.mark.slow]

OPERATOR = "website.operator:make_operator"


async def _said(program: Any, words: str) -> bool:
    return words in program.said()


async def test_the_same_version_agrees_with_its_leader(stage: Any, make_site: Any, wait_until: Any) -> None:
    """It reads the cluster over connections of its own; no other one is made."""
    try:
        await stage.server()
        await stage.install_kind()
        operator = await stage.operator()
        await wait_until("the operator to work", lambda: _said(operator, "starts its workers"))
        await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("first")))
        await stage.kubectl("wait", "--for=condition=Ready", "website/first", "--timeout=30s")
        words = ("opsdk.cli", "plan", OPERATOR, "--shadow", "--wait", "2", "--output", "json")
        shadow = await stage.start("shadow", *words, "--until", "12", "--all-permissions")
        await wait_until("the comparison", lambda: _said(shadow, "runs beside its leader"))
        await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("second")))
        await stage.kubectl("wait", "--for=condition=Ready", "website/second", "--timeout=30s")
        await stage.kubectl("delete", "website", "first", "--wait", "--timeout=30s")
        output, _ = await shadow.process.communicate()
        outcome = json.loads(output)
        assert outcome["disagreements"] == []
        assert outcome["connections"] == []
        assert outcome["decisions"]["leader"] > 0
        assert shadow.process.returncode == 0, shadow.said()
    finally:
        await stage.close()
