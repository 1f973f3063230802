"""What every namespace has: the account ``default``, and the certificates that pods trust."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from envtest.controllers.loops import Controller, Kit
from envtest.controllers.mirror import Event
from envtest.controllers.objects import deleting
from envtest.controllers.writes import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Create, Update, Write
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import AlreadyExistsError

ACCOUNT = "default"
TRUST = "kube-root-ca.crt"


# ------------------------------------------------------------------ core
def missing(namespace: str, account: Tree | None, trust: Tree | None, certificate: str) -> list[Write]:
    """The writes after which a namespace has both, the right certificates among them."""
    writes: list[Write] = []
    if account is None:
        account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": ACCOUNT, "namespace": namespace}}
        writes.append(Create(SERVICE_ACCOUNTS, account))
    data = {"ca.crt": certificate}
    if trust is None:
        text = "Contains a CA bundle that can be used to verify the kube-apiserver."
        meta = {"name": TRUST, "namespace": namespace, "annotations": {"kubernetes.io/description": text}}
        made = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": data}
        writes.append(Create(CONFIG_MAPS, made))
    elif trust.get("data") != data:
        writes.append(Update(CONFIG_MAPS, {**trust, "data": data}))
    return writes


# ------------------------------------------------------------------ shell
class ServiceAccountController(Controller):
    """``serviceaccount``; `certificate` gives the bundle that serving certificates are signed by."""

    name = "serviceaccount"

    def __init__(self, kit: Kit, certificate: Callable[[], str]) -> None:
        super().__init__(kit)
        self._certificate = certificate

    def wire(self) -> None:
        """Namespaces, and the two objects where they change or go."""
        self.hub.on(NAMESPACES, self.add)
        self.hub.on(SERVICE_ACCOUNTS, self._kept)
        self.hub.on(CONFIG_MAPS, self._kept)

    def _kept(self, event: Event) -> None:
        meta = event.obj["metadata"]
        if meta["name"] in (ACCOUNT, TRUST) and event.old is not None:
            self.queue.add(NAMESPACES.key("", meta["namespace"]))

    async def begin(self) -> None:
        """At once for what is there: who has a cluster expects its accounts."""
        for key in list(self.hub.all(NAMESPACES)):
            await self.reconcile(key)

    async def reconcile(self, key: str) -> float | None:
        """See `Controller`."""
        namespace = self.hub.get(key)
        if namespace is None or deleting(namespace):
            return None
        name = namespace["metadata"]["name"]
        account = self.hub.get(SERVICE_ACCOUNTS.key(name, ACCOUNT))
        trust = self.hub.get(CONFIG_MAPS.key(name, TRUST))
        for wanted in missing(name, account, trust, self._certificate()):
            with suppress(AlreadyExistsError):
                await self.kit.api.write(wanted)
        return None
