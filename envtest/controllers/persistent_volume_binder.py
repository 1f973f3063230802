"""Bind claims to pre-provisioned volumes, and protect claims and volumes in use.

Upstream: pkg/controller/volume/persistentvolume, pkg/controller/volume/pvcprotection (v1.36)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envtest.controllers.controller import SimulatedController
from envtest.controllers.objects import deleting, phase_of, with_status
from envtest.controllers.writes import (
    CLAIMS,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    CreateWrite,
    DeleteWrite,
    PendingEvent,
    Resource,
    UpdateWrite,
    Write,
    Writes,
)
from envtest.groups.common.label_selectors import selects
from opsdk.apimachinery.quantity import Quantity
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject

_CLAIM_IN_USE, _VOLUME_IN_USE = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_LATER, _NOBODY = "WaitForFirstConsumer", "kubernetes.io/no-provisioner"
_COMPLETED, _BY = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"


# ------------------------------------------------------------------ core
def claims_of(pod: JsonObject) -> list[str]:
    """Return the names of the claims that a pod uses."""
    sources = (v.get("persistentVolumeClaim") or {} for v in pod["spec"].get("volumes") or ())
    return [s["claimName"] for s in sources if s.get("claimName")]


@dataclass(frozen=True, slots=True)
class ClaimView:
    """The state that one sync of a claim depends on.

    `volume` is the volume of the claim, `candidates` are those that may be bound. `storage_class` is None if the
    class does not exist. `in_use`: a running pod uses the claim; `has_consumer`: any pod references it.
    """

    volume: JsonObject | None = None
    candidates: Sequence[JsonObject] = ()
    storage_class: JsonObject | None = None
    in_use: bool = False
    has_consumer: bool = False


def plan_claim(claim: JsonObject, view: ClaimView) -> Writes:
    """Return the writes of one sync of a claim."""
    spec, volume = claim["spec"], view.volume
    if deleting(claim):
        return [] if view.in_use else _remove_finalizer_write(CLAIMS, claim, _CLAIM_IN_USE)
    if not spec.get("volumeName"):
        return _bind(claim, view)
    if volume is None:
        return _lost_claim(claim) if phase_of(claim) == "Bound" else []
    if not _is_free_for(volume, claim):
        return []
    if phase_of(claim) == "Bound" and not _grows(claim, volume):
        return []
    if _grows(claim, volume):
        capacity = {**volume["spec"]["capacity"], "storage": _requested_storage(claim)}
        return [UpdateWrite(VOLUMES, {**volume, "spec": {**volume["spec"], "capacity": capacity}})]
    status = {**(claim.get("status") or {}), "phase": "Bound", **_shape(volume)}
    return [UpdateWrite(CLAIMS, with_status(claim, status), "status")]


def _shape(volume: JsonObject) -> JsonObject:
    capacity = (volume["spec"].get("capacity") or {}).get("storage", "0")
    return {"accessModes": list(volume["spec"].get("accessModes") or ()), "capacity": {"storage": capacity}}


def _requested_storage(claim: JsonObject) -> str:
    return str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "1Gi"))


def _grows(claim: JsonObject, volume: JsonObject) -> bool:
    """Whether a bound claim requests more storage than its volume has."""
    there = (volume["spec"].get("capacity") or {}).get("storage", "0")
    return phase_of(claim) == "Bound" and Quantity(_requested_storage(claim)) > Quantity(there)


def resized(claim: JsonObject, volume: JsonObject | None) -> Writes:
    """Copy the capacity of the bound volume into the claim's status."""
    capacity = ((claim.get("status") or {}).get("capacity") or {}).get("storage")
    if volume is None or phase_of(claim) != "Bound" or deleting(claim) or not _is_free_for(volume, claim):
        return []
    if capacity == _shape(volume)["capacity"]["storage"]:
        return []
    return [UpdateWrite(CLAIMS, with_status(claim, {**claim["status"], **_shape(volume)}), "status")]


def _lost_claim(claim: JsonObject) -> Writes:
    text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    lost = {**(claim.get("status") or {}), "phase": "Lost"}
    return [
        UpdateWrite(CLAIMS, with_status(claim, lost), "status"),
        PendingEvent(claim, "ClaimLost", text, warning=True),
    ]


def _bind(claim: JsonObject, view: ClaimView) -> Writes:
    """Bind the claim to the smallest volume that fits, else provision one, else write an Event with the reason."""
    meta, spec = claim["metadata"], claim["spec"]
    name, waits = spec.get("storageClassName") or "", (view.storage_class or {}).get("volumeBindingMode") == _LATER
    if waits and not view.has_consumer:
        text = "waiting for first consumer to be created before binding"
        return [PendingEvent(claim, _LATER, text)]
    volume = find_matching_volume(claim, view.candidates)
    writes: list[Write | PendingEvent] = []
    if volume is None:
        if name and view.storage_class is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            return [PendingEvent(claim, "ProvisioningFailed", text, warning=True)]
        if view.storage_class is not None and view.storage_class.get("provisioner") == _NOBODY:
            text = "no persistent volumes available for this claim and no storage class is set"
            return [PendingEvent(claim, "FailedBinding", text)]
        volume = _volume(claim, volume_name(claim), view.storage_class)
        text = f"Successfully provisioned volume {volume_name(claim)}"
        writes = [CreateWrite(VOLUMES, volume), PendingEvent(claim, "ProvisioningSucceeded", text)]
    marks = {**(meta.get("annotations") or {}), _COMPLETED: "yes", _BY: "yes"}
    bound_spec = {**spec, "volumeName": volume["metadata"]["name"]}
    return [*writes, UpdateWrite(CLAIMS, {**claim, "metadata": {**meta, "annotations": marks}, "spec": bound_spec})]


def find_matching_volume(claim: JsonObject, volumes: Sequence[JsonObject]) -> JsonObject | None:
    """Return the volume that is pre-bound to a claim, else the smallest available volume that fits."""
    candidates = [
        v for v in volumes if (v["spec"].get("claimRef") or {}) and _is_free_for(v, claim) and not deleting(v)
    ]
    free = [v for v in volumes if not v["spec"].get("claimRef") and not deleting(v) and _matches_claim(claim, v)]
    free.sort(key=lambda v: (Quantity(v["spec"]["capacity"]["storage"]).value, v["metadata"]["name"]))
    return next(iter([*candidates, *free]), None)


def _matches_claim(claim: JsonObject, volume: JsonObject) -> bool:
    claim_spec, volume_spec = claim["spec"], volume["spec"]
    if (claim_spec.get("storageClassName") or "") != (volume_spec.get("storageClassName") or ""):
        return False
    if claim_spec.get("volumeMode", "Filesystem") != volume_spec.get("volumeMode", "Filesystem"):
        return False
    if not set(claim_spec.get("accessModes") or ()) <= set(volume_spec.get("accessModes") or ()):
        return False
    if claim_spec.get("selector") and not selects(claim_spec["selector"], volume["metadata"].get("labels") or {}):
        return False
    return Quantity(_requested_storage(claim)) <= Quantity((volume_spec.get("capacity") or {}).get("storage", "0"))


def _is_free_for(volume: JsonObject, claim: JsonObject) -> bool:
    """Whether the claimRef of a volume is empty or names this claim."""
    reference = volume["spec"].get("claimRef") or {}
    meta = claim["metadata"]
    if reference and (reference.get("namespace"), reference.get("name")) != (meta["namespace"], meta["name"]):
        return False
    return reference.get("uid") in (None, "", meta["uid"])


def unbound_message(pod: JsonObject, claims: Mapping[str, JsonObject], kinds: Mapping[str, JsonObject]) -> str:
    """Return the message of a pod whose claims are not bound; empty if all are. Both maps are by name."""
    for name in claims_of(pod):
        claim = claims.get(name)
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if deleting(claim):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if phase_of(claim) == "Lost":
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
        kind = kinds.get(claim["spec"].get("storageClassName") or "") or {}
        if phase_of(claim) != "Bound" and kind.get("volumeBindingMode") != _LATER:
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def volume_name(claim: JsonObject) -> str:
    """Return the name of the volume that is provisioned for a claim."""
    return f"pvc-{claim['metadata']['uid']}"


def _remove_finalizer_write(resource: Resource, obj: JsonObject, finalizer: str) -> list[Write]:
    meta = obj["metadata"]
    finalizers = [f for f in meta.get("finalizers") or () if f != finalizer]
    if len(finalizers) == len(meta.get("finalizers") or ()):
        return []
    return [UpdateWrite(resource, {**obj, "metadata": {**meta, "finalizers": finalizers}})]


def claim_reference(claim: JsonObject) -> JsonObject:
    """Return the ``claimRef`` of a claim."""
    meta = claim["metadata"]
    reference = {k: meta[k] for k in ("name", "namespace", "uid", "resourceVersion")}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference}


def _volume(claim: JsonObject, name: str, kind: JsonObject | None) -> JsonObject:
    spec = claim["spec"]
    volume = {
        "capacity": {"storage": _requested_storage(claim)},
        "accessModes": list(spec.get("accessModes") or ["ReadWriteOnce"]),
        "claimRef": claim_reference(claim),
        "hostPath": {"path": f"/simulated/{name}", "type": ""},
        "persistentVolumeReclaimPolicy": (kind or {}).get("reclaimPolicy", "Delete"),
        **({"storageClassName": spec["storageClassName"]} if spec.get("storageClassName") else {}),
        **({"volumeMode": spec["volumeMode"]} if spec.get("volumeMode") else {}),
    }
    by = (kind or {}).get("provisioner", "envtest")
    meta = {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": by}}
    return {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": meta, "spec": volume}


def plan_volume(volume: JsonObject, claim: JsonObject | None) -> Writes:
    """Return the writes of one sync of a volume; `claim` is the claim that its ``claimRef`` names."""
    bound = claim is not None and claim["spec"].get("volumeName") == volume["metadata"]["name"]
    if deleting(volume):
        return [] if bound else _remove_finalizer_write(VOLUMES, volume, _VOLUME_IN_USE)
    reference = volume["spec"].get("claimRef") or {}
    if bound and claim is not None and not reference.get("uid"):
        return [UpdateWrite(VOLUMES, {**volume, "spec": {**volume["spec"], "claimRef": claim_reference(claim)}})]
    gone = bool(reference.get("uid")) and (claim is None or claim["metadata"]["uid"] != reference["uid"])
    if gone and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        return [DeleteWrite(VOLUMES, volume)]
    phase = "Released" if gone else "Bound" if reference.get("uid") else "Available"
    if phase_of(volume) == phase:
        return []
    return [UpdateWrite(VOLUMES, with_status(volume, {**(volume.get("status") or {}), "phase": phase}), "status")]


# ------------------------------------------------------------------ shell
class VolumeController(SimulatedController):
    """``persistentvolume-binder``: keys of claims and of volumes."""

    name = "persistentvolume-binder"
    component = "persistentvolume-controller"

    def add_event_handlers(self) -> None:
        """Watch claims, volumes, and pods that stop using them."""
        self.informers.add_event_handler(CLAIMS, self._claim)
        self.informers.add_event_handler(VOLUMES, self._volume)
        self.informers.add_event_handler(PODS, self._pod)
        self.informers.add_event_handler(STORAGE_CLASSES, lambda _: self._requeue_claims())

    def _claim(self, change: StorageChange) -> None:
        self.queue.add(change.key)
        name = change.latest["spec"].get("volumeName")
        if name:
            self.queue.add(VOLUMES.key("", name))

    def _volume(self, change: StorageChange) -> None:
        self.queue.add(change.key)
        reference = change.latest["spec"].get("claimRef") or {}
        if reference:
            self.queue.add(CLAIMS.key(reference.get("namespace", ""), reference.get("name", "")))
        elif change.current is not None:
            self._requeue_claims()

    def _requeue_claims(self) -> None:
        """Enqueue pending claims: a volume may match now."""
        for key, claim in self.informers.all(CLAIMS).items():
            if not claim["spec"].get("volumeName"):
                self.queue.add(key)

    def _pod(self, change: StorageChange) -> None:
        ended = change.current is None or phase_of(change.current) in ("Succeeded", "Failed")
        if ended or change.previous is None:
            for name in claims_of(change.latest):
                self.queue.add(CLAIMS.key(change.latest["metadata"]["namespace"], name))

    async def reconcile(self, key: str) -> float | None:
        obj = self.informers.get(key)
        if obj is None:
            return None
        if key.startswith(CLAIMS.prefix):
            spec, namespace = obj["spec"], obj["metadata"]["namespace"]
            kind = self.informers.get(STORAGE_CLASSES.key("", spec.get("storageClassName") or ""))
            if spec.get("volumeName"):
                volume = self.informers.get(VOLUMES.key("", spec["volumeName"]))
                around = ClaimView(volume, storage_class=kind, in_use=deleting(obj) and self._used(obj))
            else:
                bound_volume = self.informers.get(VOLUMES.key("", volume_name(obj)))
                others = [bound_volume] if bound_volume is not None else list(self.informers.all(VOLUMES).values())
                name = obj["metadata"]["name"]
                in_use = any(name in claims_of(p) for p in self.informers.in_namespace(PODS, namespace))
                around = ClaimView(
                    candidates=others, storage_class=kind, in_use=deleting(obj) and self._used(obj), has_consumer=in_use
                )
            await self.write(plan_claim(obj, around) or resized(obj, around.volume))
        else:
            await self.write(plan_volume(obj, self._claim_for(obj)))
        return None

    def _claim_for(self, volume: JsonObject) -> JsonObject | None:
        reference = volume["spec"].get("claimRef") or {}
        if reference:
            return self.informers.get(CLAIMS.key(reference.get("namespace", ""), reference.get("name", "")))
        name = volume["metadata"]["name"]
        claims = self.informers.all(CLAIMS).values()
        return next((c for c in claims if c["spec"].get("volumeName") == name), None)

    def _used(self, claim: JsonObject) -> bool:
        meta = claim["metadata"]
        pods = self.informers.in_namespace(PODS, meta["namespace"])
        return any(
            meta["name"] in claims_of(p) and phase_of(p) not in ("Succeeded", "Failed") and p["spec"].get("nodeName")
            for p in pods
        )
