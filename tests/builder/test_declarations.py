"""Wrong arguments of a declaration: the message says what to write, with file and line."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk import ControllerBuilder, ControllerOptions, Operator, UsageError
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.builder.arguments import OwnsSpec, WatchSpec
from opsdk.event.handlers import EnqueueRequestForObject
from opsdk.event.predicates import generation_changed
from opsdk.event.sources import ChannelSource
from opsdk.fleet import Fleet, KubeconfigDirectory
from opsdk.rbac.rules import RbacRule


async def asynchronous(event: Any) -> bool:
    """A coroutine function, whose result would always be true."""
    return True


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"owns": ConfigMap}, "owns takes a list, but got ConfigMap: write owns=[ConfigMap]"),
    ({"owns": OwnsSpec(kind=ConfigMap)}, "owns takes a list"),
    ({"owns": (kind for kind in [ConfigMap])}, "owns takes a list"),
    ({"owns": "ConfigMap"}, "owns takes a list, but got 'ConfigMap'"),
    ({"owns": ["ConfigMap"]}, "owns takes a kind, but got 'ConfigMap': pass a class such as ConfigMap"),
    ({"owns": [ConfigMap()]}, "pass the class ConfigMap, not ConfigMap(...)"),
    ({"owns": [[ConfigMap]]}, "owns takes one kind"),
    ({"owns": [int]}, "int has no kind"),
    ({"owns": [OwnsSpec(kind=5)]}, "OwnsSpec(kind=...) takes a kind, but got 5"),  # type: ignore[arg-type]
    ({"owns": [OwnsSpec(kind=ConfigMap, predicates=generation_changed())]}, "write predicates=[...]"),  # type: ignore[arg-type]
    ({"owns": [WatchSpec(kind=ConfigMap, handler=list)]}, "write watches=[WatchSpec(...)]"),
    ({"watches": [ConfigMap]}, "write watches=[WatchSpec(kind=ConfigMap, handler=...)]"),
    ({"watches": ConfigMap}, "write watches=[WatchSpec(kind=ConfigMap, handler=...)]"),
    ({"watches": WatchSpec(kind=ConfigMap, handler=list)}, "watches takes a list"),
    ({"watches": [OwnsSpec(kind=ConfigMap)]}, "write owns=[OwnsSpec(...)]"),
    ({"watches": [(ConfigMap, list)]}, "a watch needs a handler"),
    ({"watches": [WatchSpec(kind="ConfigMap", handler=list)]}, "WatchSpec(kind=...) takes a kind"),  # type: ignore[arg-type]
    ({"watches": [WatchSpec(kind=ConfigMap, handler=None)]}, "the handler of WatchSpec(kind=ConfigMap) is None"),  # type: ignore[arg-type]
    (
        {"watches": [WatchSpec(kind=ConfigMap, handler=EnqueueRequestForObject)]},
        "pass an instance, EnqueueRequestForObject(...)",
    ),
    ({"predicates": generation_changed()}, "predicates takes a list"),
    ({"predicates": [generation_changed]}, "call it: generation_changed(...)"),
    ({"predicates": [True]}, "predicates got True, which is not a function"),
    ({"predicates": [asynchronous]}, "asynchronous, which is async"),
    ({"event_filter": generation_changed()}, "event_filter takes a list"),
    ({"event_filter": [5]}, "event_filter got 5, which is not a function"),
    ({"sources": ChannelSource}, "sources takes a list"),
    ({"sources": [ChannelSource]}, "pass an instance, ChannelSource(...)"),
    ({"sources": [5]}, "sources got 5, which is not a source"),
    ({"finalizers": ["a.example.com/b"]}, 'write finalizers={"example.com/clean-up": clean_up}'),
    ({"finalizers": {"a.example.com/b": None}}, 'write finalizers={"example.com/clean-up": clean_up}'),
    ({"finalizers": {"b": asynchronous}}, "finalizer 'b' has no domain"),
    ({"rbac": RbacRule("get", Secret)}, "rbac takes a list"),
    ({"rbac": "get secrets"}, "rbac takes a list"),
    ({"rbac": ["get secrets"]}, 'write RbacRule("get list watch", Secret)'),
    ({"name": Secret}, "name takes the name of the controller, but got Secret"),
    ({"options": {"max_concurrent_reconciles": 3}}, "write options=ControllerOptions(...)"),
    ({"options": ControllerOptions}, "write options=ControllerOptions(...)"),
    ({"own": [ConfigMap]}, "reconciler() does not take own"),
    ({"ready_condition": "Ready"}, "write options=ControllerOptions(ready_condition=...)"),
]


@pytest.mark.parametrize("declares", ["operator", "fleet"])
@pytest.mark.parametrize(("keywords", "words"), WRONG)
def test_each_keyword_of_a_wrong_type_is_refused(declares: str, keywords: dict[str, Any], words: str) -> None:
    """The error is a UsageError that names the keyword, says what to write, and has this file and line."""
    operator = Operator("declarations")
    reconciler = operator.reconciler if declares == "operator" else Fleet(operator, KubeconfigDirectory("x")).reconciler
    with pytest.raises(UsageError) as error:
        reconciler(ConfigMap, **keywords)
    assert words in str(error.value)
    assert f"{__file__}:" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ([ConfigMap], "reconciler(...) takes one kind"),
        ("ConfigMap", "reconciler(...) takes a kind, but got 'ConfigMap'"),
        (ConfigMap(), "pass the class ConfigMap"),
        (None, "a controller without a kind needs a name"),
    ],
)
def test_a_wrong_reconciled_kind_is_refused(kind: Any, words: str) -> None:
    """The error says what to pass, and has this file and line."""
    with pytest.raises(UsageError) as error:
        Operator("declarations").reconciler(kind)
    assert words in str(error.value)
    assert f"{__file__}:" in str(error.value)


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("for_", ([ConfigMap],), "for_(...) takes one kind"),
        ("owns", ([ConfigMap, Secret],), "takes one kind"),
        ("owns", (ConfigMap(),), "pass the class ConfigMap"),
        ("watches", (ConfigMap,), "write watches=[WatchSpec(kind=ConfigMap, handler=...)]"),
        ("watches", ("ConfigMap", list), "takes a kind"),
        ("with_predicates", ([generation_changed()],), "is not a function"),
        ("with_event_filter", (generation_changed,), "call it: generation_changed(...)"),
        ("rbac", ("get secrets",), "write RbacRule("),
        ("named", (5,), "name takes the name"),
        ("with_options", ({},), "write options=ControllerOptions(...)"),
        ("watches_source", (ChannelSource,), "pass an instance, ChannelSource(...)"),
        ("watches_source", (list,), "which is not a source"),
    ],
)
def test_the_builder_refuses_the_same_arguments(method: str, arguments: tuple[Any, ...], words: str) -> None:
    """Each method raises UsageError with the place of the builder."""
    from cache_world import World

    builder = ControllerBuilder[Any](World().cache, place="operator.py:7")
    with pytest.raises(UsageError) as error:
        getattr(builder, method)(*arguments)
    assert words in str(error.value)
    assert "operator.py:7" in str(error.value)
