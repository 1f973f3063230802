"""Claims are bound to volumes that nobody provides, and both are protected for as long as they are in use."""

from __future__ import annotations

from collections.abc import Sequence

from envtest.controllers.loops import Controller
from envtest.controllers.mirror import Event
from envtest.controllers.objects import deleting, phase_of, with_status
from envtest.controllers.writes import CLAIMS, PODS, VOLUMES, Create, Delete, Resource, Update, Write
from opsdk.apiserver.storage.ports import Tree

_CLAIM_IN_USE, _VOLUME_IN_USE = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_COMPLETED, _BY = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"


# ------------------------------------------------------------------ core
def claims_of(pod: Tree) -> list[str]:
    """The names of the claims that a pod uses."""
    sources = (v.get("persistentVolumeClaim") or {} for v in pod["spec"].get("volumes") or ())
    return [s["claimName"] for s in sources if s.get("claimName")]


def plan_claim(claim: Tree, volume: Tree | None, *, used: bool) -> Sequence[Write]:
    """One step of a claim; `volume` is the one it names, or would get."""
    meta, spec = claim["metadata"], claim["spec"]
    if deleting(claim):
        return [] if used else _let_go(CLAIMS, claim, _CLAIM_IN_USE)
    if not spec.get("volumeName"):
        name = volume_name(claim)
        marks = {**(meta.get("annotations") or {}), _COMPLETED: "yes", _BY: "yes"}
        bound = {**claim, "metadata": {**meta, "annotations": marks}, "spec": {**spec, "volumeName": name}}
        made = [Create(VOLUMES, _volume(claim, name))] if volume is None else []
        return [*made, Update(CLAIMS, bound)]
    if volume is None or phase_of(claim) == "Bound" or not _takes(volume, claim):
        return []
    capacity = (volume["spec"].get("capacity") or {}).get("storage", "0")
    status = {
        "phase": "Bound",
        "accessModes": list(volume["spec"].get("accessModes") or ()),
        "capacity": {"storage": capacity},
    }
    return [Update(CLAIMS, with_status(claim, status), "status")]


def _takes(volume: Tree, claim: Tree) -> bool:
    """Whether a volume is for this claim, or for anybody."""
    reference = volume["spec"].get("claimRef") or {}
    wanted = (claim["metadata"]["namespace"], claim["metadata"]["name"])
    return not reference or (reference.get("namespace"), reference.get("name")) == wanted


def volume_name(claim: Tree) -> str:
    """The volume that is made for a claim."""
    return f"pvc-{claim['metadata']['uid']}"


def _let_go(resource: Resource, obj: Tree, finalizer: str) -> list[Write]:
    meta = obj["metadata"]
    kept = [f for f in meta.get("finalizers") or () if f != finalizer]
    if len(kept) == len(meta.get("finalizers") or ()):
        return []
    return [Update(resource, {**obj, "metadata": {**meta, "finalizers": kept}})]


def claim_reference(claim: Tree) -> Tree:
    """How a volume names its claim."""
    meta = claim["metadata"]
    named = {k: meta[k] for k in ("name", "namespace", "uid", "resourceVersion")}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **named}


def _volume(claim: Tree, name: str) -> Tree:
    spec = claim["spec"]
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
    made = {
        "capacity": {"storage": storage},
        "accessModes": list(spec.get("accessModes") or ["ReadWriteOnce"]),
        "claimRef": claim_reference(claim),
        "hostPath": {"path": f"/simulated/{name}", "type": ""},
        "persistentVolumeReclaimPolicy": "Delete",
        **({"storageClassName": spec["storageClassName"]} if spec.get("storageClassName") else {}),
        **({"volumeMode": spec["volumeMode"]} if spec.get("volumeMode") else {}),
    }
    meta = {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": "envtest"}}
    return {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": meta, "spec": made}


def plan_volume(volume: Tree, claim: Tree | None) -> Sequence[Write]:
    """One step of a volume; `claim` is the one that has it or asks for it by name."""
    bound = claim is not None and claim["spec"].get("volumeName") == volume["metadata"]["name"]
    if deleting(volume):
        return [] if bound else _let_go(VOLUMES, volume, _VOLUME_IN_USE)
    reference = volume["spec"].get("claimRef") or {}
    if bound and claim is not None and not reference.get("uid"):
        return [Update(VOLUMES, {**volume, "spec": {**volume["spec"], "claimRef": claim_reference(claim)}})]
    gone = bool(reference.get("uid")) and (claim is None or claim["metadata"]["uid"] != reference["uid"])
    if gone and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        return [Delete(VOLUMES, volume)]
    phase = "Released" if gone else "Bound" if reference.get("uid") else "Available"
    if phase_of(volume) == phase:
        return []
    return [Update(VOLUMES, with_status(volume, {**(volume.get("status") or {}), "phase": phase}), "status")]


# ------------------------------------------------------------------ shell
class VolumeController(Controller):
    """``persistentvolume-binder``: keys of claims and of volumes."""

    name = "persistentvolume-binder"
    component = "persistentvolume-controller"

    def wire(self) -> None:
        """Claims, volumes, and pods that stop using them."""
        self.hub.on(CLAIMS, self._claim)
        self.hub.on(VOLUMES, self._volume)
        self.hub.on(PODS, self._pod)

    def _claim(self, event: Event) -> None:
        self.queue.add(event.key)
        name = event.obj["spec"].get("volumeName")
        if name:
            self.queue.add(VOLUMES.key("", name))

    def _volume(self, event: Event) -> None:
        self.queue.add(event.key)
        reference = event.obj["spec"].get("claimRef") or {}
        if reference:
            self.queue.add(CLAIMS.key(reference.get("namespace", ""), reference.get("name", "")))

    def _pod(self, event: Event) -> None:
        if event.new is None or phase_of(event.new) in ("Succeeded", "Failed"):
            for name in claims_of(event.obj):
                self.queue.add(CLAIMS.key(event.obj["metadata"]["namespace"], name))

    async def reconcile(self, key: str) -> float | None:
        """See `Controller`."""
        obj = self.hub.get(key)
        if obj is None:
            return None
        if key.startswith(CLAIMS.prefix):
            name = obj["spec"].get("volumeName") or volume_name(obj)
            used = deleting(obj) and self._used(obj)
            await self.write(plan_claim(obj, self.hub.get(VOLUMES.key("", name)), used=used))
        else:
            await self.write(plan_volume(obj, self._claim_for(obj)))
        return None

    def _claim_for(self, volume: Tree) -> Tree | None:
        reference = volume["spec"].get("claimRef") or {}
        if reference:
            return self.hub.get(CLAIMS.key(reference.get("namespace", ""), reference.get("name", "")))
        name = volume["metadata"]["name"]
        claims = self.hub.all(CLAIMS).values()
        return next((c for c in claims if c["spec"].get("volumeName") == name), None)

    def _used(self, claim: Tree) -> bool:
        meta = claim["metadata"]
        pods = self.hub.in_namespace(PODS, meta["namespace"])
        return any(
            meta["name"] in claims_of(p) and phase_of(p) not in ("Succeeded", "Failed") and p["spec"].get("nodeName")
            for p in pods
        )
