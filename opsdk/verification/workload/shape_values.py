"""Values of Kubernetes' own shapes: harmless ones, those at an edge, and misoperations. Pure.

All are proposals: those that the schema refuses are dropped. A value may follow from the current one, such as a claim
that is smaller than before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Final

from opsdk.apimachinery.quantity import Quantity
from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.schema_fields import ENTRY, SchemaField
from opsdk.verification.workload.shapes import Shape, referenced_kind
from opsdk.verification.workload.values import FieldValue, boundary, misoperation, valid

MAX_REPLICAS: Final = 11
"""Replicas that are proposed: a thousand pods would only slow a run down. The eleventh has a name of two digits."""
NO_NODE: Final = "verify.example.com/no-node-has-this"
"""A label that no node has."""
_HUGE_CPU: Final = "100000"
_HUGE_STORAGE: Final = "10Ei"
_IMAGES: Final = ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10")
_ABSENT_IMAGE: Final = "registry.invalid/absent:0"

Values = Iterator[FieldValue]


def shape_values(shape: Shape, field: SchemaField, current: JsonValue) -> Values:
    """Yield proposals for a field of this shape, whose value is `current` now."""
    propose = _PROPOSALS.get(shape)
    return iter(()) if propose is None else propose(field, current)


def _replicas(_: SchemaField, current: JsonValue) -> Values:
    for count in (1, 2, 3):
        yield valid(count, f"scale to {count}")
    if isinstance(current, int) and 3 <= current < MAX_REPLICAS:
        yield valid(current + 1, "one replica more")
    yield boundary(0, "no replicas")
    yield valid(MAX_REPLICAS, f"scale to {MAX_REPLICAS}: the names of the members have two digits")


def _image(_: SchemaField, current: JsonValue) -> Values:
    for number, image in enumerate(_IMAGES):
        if image != current:
            yield valid(image, f"image {number + 1} of another application")
    yield boundary("", "an empty image")
    yield misoperation(_ABSENT_IMAGE, "an image that does not exist")
    yield misoperation("Not An Image", "a text that is no image reference")


def _resources(field: SchemaField, _: JsonValue) -> Values:
    keys = ("storage",) if _is_below_claim(field) else ("cpu", "memory")
    small: JsonObject = dict(zip(keys, ("1Gi",) if keys == ("storage",) else ("100m", "64Mi"), strict=True))
    large: JsonObject = dict(zip(keys, ("2Gi",) if keys == ("storage",) else ("200m", "128Mi"), strict=True))
    yield valid({"requests": small}, "small requests")
    yield valid({"requests": large}, "larger requests")
    yield boundary({}, "neither requests nor limits")
    if keys == ("cpu", "memory"):
        yield valid({"requests": small, "limits": large}, "limits above the requests")
        yield boundary({"requests": large, "limits": large}, "limits equal to the requests")
        yield boundary({"requests": {"cpu": "0"}}, "a request of no cpu")
        yield misoperation({"requests": {"cpu": _HUGE_CPU}}, "requests beyond any node")
        yield misoperation({"requests": large, "limits": small}, "limits below the requests")
        yield misoperation({"limits": {"memory": "1"}}, "a limit in which no process runs")


def _is_below_claim(field: SchemaField) -> bool:
    return field.parent is not None and {"accessModes", "storageClassName"} <= field.parent.node.properties.keys()


def _affinity(_: SchemaField, __: JsonValue) -> Values:
    preferred = {"weight": 1, "preference": _terms("kubernetes.io/os", "Exists")}
    yield valid(
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}, "a preference for nodes"
    )
    yield boundary({}, "an affinity without rules")
    required = {"nodeSelectorTerms": [_terms(NO_NODE, "Exists")]}
    yield misoperation(
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}, "an affinity to absent nodes"
    )


def _terms(key: str, operator: str) -> JsonObject:
    return {"matchExpressions": [{"key": key, "operator": operator}]}


def _node_selector(_: SchemaField, __: JsonValue) -> Values:
    yield valid({"kubernetes.io/os": "linux"}, "nodes with Linux")
    yield misoperation({NO_NODE: "true"}, "a selector of absent nodes")


def _tolerations(_: SchemaField, __: JsonValue) -> Values:
    yield valid([{"key": "example.com/dedicated", "operator": "Exists", "effect": "NoSchedule"}], "one toleration")
    yield boundary([], "no tolerations")
    yield misoperation([{"operator": "Exists", "effect": "NoExecute"}], "a toleration of every eviction")
    yield misoperation([{"key": "example.com/dedicated", "operator": "Unknown"}], "a toleration with a wrong operator")


def _probe(_: SchemaField, __: JsonValue) -> Values:
    yield valid({"exec": {"command": ["true"]}}, "a probe that succeeds")
    yield valid({"exec": {"command": ["true"]}, "periodSeconds": 30}, "a probe that is rare")
    yield misoperation({"exec": {"command": ["false"]}}, "a probe that cannot succeed")
    yield misoperation({"tcpSocket": {"port": 1}, "failureThreshold": 1}, "a probe of a closed port")
    yield misoperation({"periodSeconds": 1}, "a probe without an action")


def _containers(_: SchemaField, current: JsonValue) -> Values:
    main = {"name": ENTRY, "image": _IMAGES[1]}
    others = [one for one in current if isinstance(one, dict)] if isinstance(current, list) else []
    yield valid([main], "one container")
    yield valid([*(others or [main]), {"name": "added", "image": _IMAGES[1]}], "a container more")
    yield misoperation([main, main], "two containers of one name")
    yield misoperation([{**main, "command": ["false"]}], "a container that ends with an error")


def _labels(_: SchemaField, current: JsonValue) -> Values:
    before = current if isinstance(current, dict) else {}
    yield valid({**before, "verify.example.com/added": "true"}, "an entry more")
    if before:
        first = min(before)
        yield valid({**before, first: "changed"}, "another value of an entry")
        yield valid({key: value for key, value in before.items() if key != first}, "an entry less")
    yield boundary({}, "no entries")
    yield boundary({**before, "verify.example.com/empty": ""}, "an entry with an empty value")
    yield misoperation({**before, "not a label!": "no/label value!"}, "an entry that is no label")


def _claim(field: SchemaField, current: JsonValue) -> Values:
    before: JsonObject = current if isinstance(current, dict) else {"accessModes": ["ReadWriteOnce"]}
    size = get_path(before, ("resources", "requests", "storage"), None)
    for proposal in _sizes(field, size):
        resources = {"requests": {"storage": proposal.value}}
        yield FieldValue({**before, "resources": resources}, proposal.value_class, proposal.reason)
    yield misoperation({**before, "storageClassName": "absent"}, "a storage class that does not exist")
    yield misoperation({**before, "accessModes": []}, "a claim without access modes")


def _sizes(_: SchemaField, current: JsonValue) -> Values:
    before = _quantity(current)
    if before is None or before.value <= 0:
        yield valid("1Gi", "a small volume")
        yield valid("2Gi", "a larger volume")
    else:
        yield valid(str(before + before), "a volume of twice the size")
        yield valid(str(before + Quantity("1Gi")), "a volume with 1Gi more")
        yield misoperation(
            str(Quantity.of(before.value / Decimal(2), binary=True)), "a volume that is smaller than before"
        )
    yield boundary("0", "a volume of no size")
    yield misoperation(_HUGE_STORAGE, "a volume beyond any disk")


def volume_size(value: JsonValue) -> Decimal | None:
    """Return the size of a volume: of a number, a quantity or a claim; None if the value has none.

    >>> volume_size("2Gi") > volume_size({"resources": {"requests": {"storage": "1Gi"}}}), volume_size("large")
    (True, None)
    """
    if isinstance(value, dict):
        value = get_path(value, ("resources", "requests", "storage"), None)
    quantity = _quantity(value)
    return None if quantity is None else quantity.value


def _quantities(_: SchemaField, current: JsonValue) -> Values:
    before = _quantity(current)
    if before is not None and before.value > 0:
        yield valid(str(before + before), "twice as much")
    for text in ("100m", "1", "1Gi"):
        yield valid(text, f"the quantity {text}")
    yield boundary("0", "nothing")
    yield boundary("1.5", "a quantity with a fraction")
    yield misoperation("-1", "a negative quantity")
    yield misoperation("10E", "a quantity beyond any node")


def _quantity(value: JsonValue) -> Quantity | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    try:
        return Quantity(value)
    except ValueError:
        return None


def _port(_: SchemaField, __: JsonValue) -> Values:
    for port in (8080, 8443):
        yield valid(port, f"port {port}")
    yield boundary(1, "the first port")
    yield boundary(65535, "the last port")
    yield misoperation(0, "port zero")
    yield misoperation(65536, "a port above 65535")


def _service_type(_: SchemaField, __: JsonValue) -> Values:
    for kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        yield valid(kind, f"a Service of type {kind}")
    yield misoperation("ExternalName", "a Service without pods")
    yield misoperation("Unknown", "a type of Service that does not exist")


def _reference(field: SchemaField, _: JsonValue) -> Values:
    kind = referenced_kind(field)
    yield boundary("", f"no name of a {kind}")
    yield misoperation("absent", f"a {kind} that does not exist")
    yield misoperation("Not A Name", f"a text that is no name of a {kind}")


def _cron_schedule(_: SchemaField, __: JsonValue) -> Values:
    yield valid("*/5 * * * *", "every five minutes")
    yield valid("0 3 * * *", "once a day")
    yield boundary("* * * * *", "every minute")
    yield misoperation("0 0 31 2 *", "a schedule that never fires")
    yield misoperation("61 * * * *", "a text that is no schedule")


def _duration(_: SchemaField, __: JsonValue) -> Values:
    for text in ("30s", "5m"):
        yield valid(text, f"a duration of {text}")
    yield boundary("0s", "a duration of zero")
    yield boundary("1ns", "the shortest duration")
    yield boundary("87600h", "ten years")
    yield misoperation("-1s", "a negative duration")
    yield misoperation("soon", "a text that is no duration")


# The parts of pods and Services have shapes of their own.
_PROPOSALS: Final[Mapping[Shape, Callable[[SchemaField, JsonValue], Values]]] = {
    Shape.AFFINITY: _affinity,
    Shape.CLAIM: _claim,
    Shape.CONTAINERS: _containers,
    Shape.CRON_SCHEDULE: _cron_schedule,
    Shape.DURATION: _duration,
    Shape.IMAGE: _image,
    Shape.LABELS: _labels,
    Shape.NODE_SELECTOR: _node_selector,
    Shape.PORT: _port,
    Shape.PROBE: _probe,
    Shape.QUANTITY: _quantities,
    Shape.REFERENCE: _reference,
    Shape.REPLICAS: _replicas,
    Shape.RESOURCES: _resources,
    Shape.SERVICE_TYPE: _service_type,
    Shape.STORAGE_SIZE: _sizes,
    Shape.TOLERATIONS: _tolerations,
}
