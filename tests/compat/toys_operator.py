"""An operator for kopf: handlers that fail and come back, children, a timer, a daemon, an index, and a good-bye."""

from __future__ import annotations

import os
from typing import Any

import kopf
from kubernetes import client, config

from opsdk.structured_merge.value import JsonObject

GROUP = "kopf.test"


@kopf.on.login()
def login(**more: Any) -> Any:
    """From ``$KUBECONFIG`` as it is now; the official client looks once, when it is imported."""
    return kopf.login_with_kubeconfig(**more)


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """With a finalizer of its own."""
    settings.persistence.finalizer = f"{GROUP}/finalizer"


@kopf.on.create(GROUP, "v1", "toys")
@kopf.on.update(GROUP, "v1", "toys")
def made(spec: Any, body: Any, name: str, **_: Any) -> JsonObject:
    """What it was told."""
    kopf.info(body, reason="Seen", message="a toy")
    return {"seen": spec.get("replicas", 0), "name": name}


@kopf.on.create(GROUP, "v1", "toys", id="stubborn")
def stubborn(retry: int, patch: Any, **_: Any) -> None:
    """Works at the third attempt."""
    patch.status["attempts"] = retry + 1
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=0.1)


@kopf.on.create(GROUP, "v1", "toys", id="child")
def child(body: Any, namespace: str, **_: Any) -> None:
    """A map that belongs to the toy."""
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{body['metadata']['name']}-child"}}
    kopf.adopt(tree, owner=body)
    with config.new_client_from_config(os.environ["KUBECONFIG"]) as api:
        client.CoreV1Api(api).create_namespaced_config_map(namespace, tree)


@kopf.on.field(GROUP, "v1", "toys", field="spec.replicas", old=kopf.PRESENT)
def resized(old: int, new: int, patch: Any, **_: Any) -> None:
    """What changed."""
    patch.status["resized"] = f"{old} -> {new}"


@kopf.on.resume(GROUP, "v1", "toys")
def resumed(patch: Any, status: Any, **_: Any) -> None:
    """How often somebody has found it as it was."""
    patch.status["resumed"] = status.get("resumed", 0) + 1


@kopf.index(GROUP, "v1", "toys")
def sizes(name: str, spec: Any, **_: Any) -> dict[str, int]:
    """All toys, by name."""
    return {name: spec.get("replicas", 0)}


@kopf.on.event("", "v1", "secrets", annotations={"kopf.test/count": "toys"})
def counted(patch: Any, meta: Any, sizes: Any, **_: Any) -> None:
    """Tells a secret how many toys there are."""
    expected = str(len(sizes))
    if meta.annotations.get("kopf.test/toys") != expected:
        patch.metadata.annotations["kopf.test/toys"] = expected


@kopf.daemon(GROUP, "v1", "toys", cancellation_timeout=2)
async def beside(stopped: kopf.DaemonStopped, logger: Any, **_: Any) -> None:
    """Stays with its toy to the end."""
    await stopped.wait(60)
    logger.info("the daemon leaves")


@kopf.timer(GROUP, "v1", "toys", interval=0.2)
def tick(patch: Any, status: Any, **_: Any) -> None:
    """Counts."""
    patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.on.delete(GROUP, "v1", "toys")
def gone(namespace: str, logger: Any, **_: Any) -> None:
    """Says good-bye."""
    logger.info("good-bye from %s", namespace)
