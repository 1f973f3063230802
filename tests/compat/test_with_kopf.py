"""An operator written with kopf."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kopf.testing import KopfRunner
from kubernetes import client, config

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]
GROUP = "kopf.test"
OPERATOR = str(Path(__file__).with_name("toys_operator.py"))


def eventually(look: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + 30
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_operator_lives_its_life(kubeconfig: str, namespace: str, definition: Any) -> None:
    """Handlers run and keep their progress, a timer ticks, and a toy goes when its finalizer has been taken off."""
    with config.new_client_from_config(kubeconfig) as api:
        client.ApiextensionsV1Api(api).create_custom_resource_definition(definition(GROUP))
        toys, where = client.CustomObjectsApi(api), (GROUP, "v1", namespace, "toys")

        def status() -> dict[str, Any]:
            found: dict[str, Any] = toys.get_namespaced_custom_object(*where, "t").get("status", {})
            return found

        with KopfRunner(["run", "--standalone", "--namespace", namespace, OPERATOR], timeout=60) as runner:
            body = {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": {"name": "t"}, "spec": {"replicas": 1}}
            toys.create_namespaced_custom_object(*where, body)
            eventually(lambda: status().get("made") == {"seen": 1, "name": "t"})
            toys.patch_namespaced_custom_object(*where, "t", {"spec": {"replicas": 5}})
            eventually(lambda: status()["made"]["seen"] == 5)
            eventually(lambda: status().get("ticks", 0) > 2)
            meta = toys.get_namespaced_custom_object(*where, "t")["metadata"]
            assert meta["finalizers"] == [f"{GROUP}/finalizer"]
            toys.delete_namespaced_custom_object(*where, "t")
            eventually(lambda: not toys.list_namespaced_custom_object(*where)["items"])
            events = client.CoreV1Api(api)
            eventually(lambda: "Seen" in [e.reason for e in events.list_namespaced_event(namespace).items])
        assert runner.exit_code == 0
        assert runner.exception is None
        assert "good-bye" in runner.output
