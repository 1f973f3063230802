"""Laws of `envtest.controllers.rollout`, for any numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envtest.controllers import rollout
from envtest.controllers.objects import replicas_of, status_of
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import deployment, template

_counts = st.integers(0, 12)


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[JsonObject, JsonObject, list[JsonObject]]:
    """A deployment in the middle of a rollout: its new and its old replica sets, each with some pods available."""
    rolling = {"maxSurge": draw(st.integers(0, 4)), "maxUnavailable": draw(st.sampled_from([0, 1, 3, "25%", "100%"]))}
    desired = deployment("d", replicas=draw(_counts), strategy={"type": "RollingUpdate", "rollingUpdate": rolling})

    def replica_set(number: int) -> JsonObject:
        size = draw(_counts)
        status = {"availableReplicas": draw(st.integers(0, size))}
        spec = {"replicas": size, "template": template("d", image=f"x:{number}")}
        return {"metadata": {"name": f"d-{number}"}, "spec": spec, "status": status}

    new, old = replica_set(0), [replica_set(n) for n in range(1, 1 + draw(st.integers(0, 3)))]
    for item in (new, *old):
        # What they were told when they got these sizes.
        annotations = {
            rollout.MAXIMUM: str(rollout.total_replicas([new, *old])),
            rollout.DESIRED: str(replicas_of(desired)),
        }
        item["metadata"]["annotations"] = annotations
    return desired, new, old


@given(rollouts())
def test_growth_stays_below_the_ceiling(case: tuple[JsonObject, JsonObject, list[JsonObject]]) -> None:
    """The new replica set grows only as far as the surge allows, and shrinks only to what is wanted."""
    expected, new, old = case
    size = rollout.new_replica_set_size(expected, new, old)
    before, ceiling = rollout.total_replicas([new, *old]), replicas_of(expected) + rollout.limits(expected).surge
    assert size <= max(replicas_of(expected), 0)
    if size > replicas_of(new):
        assert before - replicas_of(new) + size <= ceiling
    else:
        assert size == min(replicas_of(new), replicas_of(expected))


@given(rollouts())
def test_shrinking_keeps_the_floor(case: tuple[JsonObject, JsonObject, list[JsonObject]]) -> None:
    """Old replica sets give up pods that do not work first, and no more of the others than can be spared."""
    expected, new, old = case
    sizes = rollout.scale_down_old(expected, new, old)

    def left(item: JsonObject) -> int:
        size = sizes.get(item["metadata"]["name"], replicas_of(item))
        assert 0 <= size <= replicas_of(item)
        return min(size, status_of(item, "availableReplicas"))

    floor = replicas_of(expected) - rollout.limits(expected).unavailable
    before = rollout.total([new, *old], "availableReplicas")
    assert sum(left(s) for s in old) + status_of(new, "availableReplicas") >= min(before, floor)


@given(rollouts())
def test_progress_is_always_possible(case: tuple[JsonObject, JsonObject, list[JsonObject]]) -> None:
    """With every pod available, a rollout that is not over moves: the new set grows or an old one shrinks."""
    expected, new, old = case
    for item in (new, *old):
        item["status"]["availableReplicas"] = replicas_of(item)
    over = replicas_of(new) == replicas_of(expected) and not rollout.total_replicas(old)
    moves = rollout.new_replica_set_size(expected, new, old) != replicas_of(new) or bool(
        rollout.scale_down_old(expected, new, old)
    )
    assert moves or over


@given(rollouts())
def test_rescaling_shares_everything(case: tuple[JsonObject, JsonObject, list[JsonObject]]) -> None:
    """A new size is distributed completely among replica sets."""
    expected, new, old = case
    sizes = {s["metadata"]["name"]: replicas_of(s) for s in (new, *old)}
    active = sum(size > 0 for size in sizes.values())
    full = replicas_of(new) == replicas_of(expected) == status_of(new, "availableReplicas")
    sizes.update(rollout.rescale(expected, new, old))
    allowed = replicas_of(expected) + rollout.limits(expected).surge if replicas_of(expected) else 0
    if active > 1:
        assert sum(sizes.values()) == (replicas_of(expected) if full else allowed)
    else:
        assert sum(sizes.values()) == replicas_of(expected)


def test_the_template_hash_depends_on_template_and_collision_count() -> None:
    """The template hash depends only on the template and the collision count."""
    first = deployment("d")["spec"]["template"]
    assert rollout.template_hash(first) == rollout.template_hash(deployment("d", replicas=7)["spec"]["template"])
    assert rollout.template_hash(first) != rollout.template_hash(deployment("d", image="x:2")["spec"]["template"])
    assert rollout.template_hash(first) != rollout.template_hash(first, 1)
