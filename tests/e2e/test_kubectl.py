"""The real kubectl against the API server, without an operator."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.realtime, pytest.mark.timeout(120)]


async def test_lists_are_validated_and_applied(stage: Any) -> None:
    """A ``kind: List`` is checked by the v2 document in protobuf, which kubectl must be able to read."""
    try:
        await stage.server()
        items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in "ab"]
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        assert await stage.kubectl("apply", "-f", "-", stdin=manifest) == "configmap/a created\nconfigmap/b created\n"
        assert "unchanged" in await stage.kubectl("apply", "-f", "-", stdin=manifest)
    finally:
        await stage.close()


async def test_custom_kinds_are_explained_and_patched(stage: Any, make_site: Any) -> None:
    """Explain knows the schema of a kind that was just defined; apply changes its objects by merge patch."""
    try:
        await stage.server()
        await stage.install_kind()
        assert "replicas" in await stage.kubectl("explain", "website.spec")
        for image in ("nginx:1", "nginx:2"):
            await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("a", image)))
        assert await stage.kubectl("get", "site", "a", "-o", "jsonpath={.spec.image}") == "nginx:2"
        refused = await stage.kubectl("apply", "-f", "-", stdin=json.dumps(make_site("b", "")), check=False)
        assert "spec.image" in refused
        strict = {**make_site("c"), "spec": {"image": "x", "imagee": "y"}}
        refused = await stage.kubectl("apply", "-f", "-", stdin=json.dumps(strict), check=False)
        assert 'unknown field "spec.imagee"' in refused
    finally:
        await stage.close()
