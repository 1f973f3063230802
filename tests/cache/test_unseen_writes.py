"""Writes and declarations that a cache can never show are reported."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from boxes import Box, box, environment, records

from opsdk import (
    ByObject,
    CacheOptions,
    Cluster,
    ClusterOptions,
    Context,
    FieldSelector,
    LabelRequirements,
    ObjectMeta,
    Operator,
    OperatorOptions,
    UsageError,
    crd_for,
)
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.cache.options import strip_managed_fields

LABELED = ByObject(label_selector=LabelRequirements.parse("a=b"))


def make_operator(cache: CacheOptions, **declared: Any) -> Operator:
    """An operator that applies a ConfigMap without a read before."""
    operator = Operator("boxes", OperatorOptions(cluster=ClusterOptions(cache=cache)))

    @operator.reconciler(Box, **declared)
    async def reconcile(obj: Box, ctx: Context) -> None:
        meta = ObjectMeta(name="child", namespace="default", labels=dict(obj.metadata.labels))
        await ctx.client.apply(ConfigMap(metadata=meta, data={"a": "b"}), field_owner="boxes")

    return operator


@pytest.mark.parametrize(
    ("cache", "labels", "warning"),
    [
        (CacheOptions(by_kind={ConfigMap: LABELED}), {}, "objects with the labels a=b"),
        (CacheOptions(by_kind={ConfigMap: LABELED}), {"a": "b"}, ""),
        (CacheOptions(by_kind={ConfigMap: ByObject(namespaces=["x", "y"])}), {}, "the namespaces x, y"),
        (
            CacheOptions(
                namespace_selector=LabelRequirements.parse("env=prod"), by_kind={Box: ByObject(namespaces=[""])}
            ),
            {},
            "the namespaces of namespace_selector",
        ),
        (CacheOptions(by_kind={ConfigMap: ByObject(namespaces=["default"])}), {}, ""),
        (
            CacheOptions(by_kind={ConfigMap: ByObject(field_selector=FieldSelector.parse("metadata.name=other"))}),
            {},
            "objects with the fields metadata.name=other",
        ),
        (CacheOptions(by_kind={ConfigMap: ByObject(field_selector=FieldSelector.parse("metadata.name!=x"))}), {}, ""),
        (CacheOptions(by_kind={Secret: LABELED}), {}, ""),
        (CacheOptions(), {}, ""),
    ],
)
async def test_a_child_outside_of_the_cache_is_reported_once(
    cache: CacheOptions, labels: dict[str, str], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first write that no informer shows is a warning with the limit and what to do; others are none."""
    async with environment.Environment(crds=[crd_for(Box)], hot_loop_limit=0) as env, Cluster(env.config) as outside:
        operator = make_operator(cache, owns=[ConfigMap])
        task = asyncio.create_task(operator.start(env.config))
        with caplog.at_level(logging.WARNING, logger="opsdk.cache.unseen_writes"):
            for name in ("a", "b"):
                await outside.uncached.create(box(name, labels=labels))
                await asyncio.sleep(3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert records(operator)
    lines = [record.getMessage() for record in caplog.records if record.name == "opsdk.cache.unseen_writes"]
    assert len(lines) == bool(warning)
    assert not lines or f"ConfigMap default/child was written, but the cache of its kind has only {warning}" in lines[0]


def without(*fields: str) -> Any:
    """A transform that drops fields of the metadata."""

    def transform(tree: dict[str, Any]) -> dict[str, Any]:
        return {**tree, "metadata": {key: value for key, value in tree["metadata"].items() if key not in fields}}

    return transform


def broken(tree: dict[str, Any]) -> dict[str, Any]:
    """A transform of objects that the probe does not look like."""
    return {"metadata": {}, "data": tree["data"]["x"]}


@pytest.mark.parametrize(
    ("cache", "declared", "problem"),
    [
        (
            CacheOptions(by_kind={Box: ByObject(namespaces=["a"]), ConfigMap: ByObject(namespaces=["b"])}),
            {},
            "so none is ever seen",
        ),
        (CacheOptions(by_kind={Box: ByObject(namespaces=["a"]), ConfigMap: ByObject(namespaces=["a", "b"])}), {}, ""),
        (CacheOptions(by_kind={Box: ByObject(namespaces=["a"]), ConfigMap: ByObject(namespaces=[""])}), {}, ""),
        (CacheOptions(transform=without("ownerReferences")), {}, "drops metadata.ownerReferences of ConfigMap"),
        (CacheOptions(transform=without("ownerReferences")), {"owns": []}, ""),
        (
            CacheOptions(by_kind={Box: ByObject(transform=without("finalizers"))}),
            {"finalizers": {"x.io/y": lambda obj, ctx: None}},
            "its finalizers never run",
        ),
        (CacheOptions(by_kind={Box: ByObject(transform=without("finalizers"))}), {}, ""),
        (CacheOptions(transform=strip_managed_fields), {}, ""),
        (CacheOptions(transform=broken), {}, ""),
        (
            CacheOptions(by_kind={ConfigMap: ByObject(label_selector=LabelRequirements.none())}),
            {},
            "selects no ConfigMap",
        ),
    ],
)
def test_what_can_never_be_seen_is_refused_at_the_declaration(
    cache: CacheOptions, declared: dict[str, Any], problem: str
) -> None:
    """Namespaces, transforms and selectors that drop what events and finalizers need are usage errors with a place."""
    if not problem:
        make_operator(cache, **{"owns": [ConfigMap]} | declared)
        return
    with pytest.raises(UsageError, match=problem) as caught:
        make_operator(cache, **{"owns": [ConfigMap]} | declared)
    assert "test_unseen_writes.py:" in str(caught.value)
