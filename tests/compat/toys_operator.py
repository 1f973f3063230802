"""An operator for kopf: a child for each toy, a timer, and something to do before a toy goes."""

from __future__ import annotations

from typing import Any

import kopf

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
def made(spec: Any, body: Any, name: str, **_: Any) -> dict[str, Any]:
    """What it was told."""
    kopf.info(body, reason="Seen", message="a toy")
    return {"seen": spec.get("replicas", 0), "name": name}


@kopf.timer(GROUP, "v1", "toys", interval=0.2)
def tick(patch: Any, status: Any, **_: Any) -> None:
    """Counts."""
    patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.on.delete(GROUP, "v1", "toys")
def gone(namespace: str, logger: Any, **_: Any) -> None:
    """Says good-bye."""
    logger.info("good-bye from %s", namespace)
