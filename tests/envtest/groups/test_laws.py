"""Laws that hold for every object of every built-in kind."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envtest.data.resources import ServedResourceRow
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.strategy import HasStatusRules
from opsdk.apiserver.serializer.deep_copy import copy_tree
from opsdk.errors import ApiError
from tests.envtest.groups.trees import kinds, known, make, model_of

KINDS = pytest.mark.parametrize("row", kinds(), ids=lambda row: f"{row.info.group}/{row.info.resource}")
SEEDS = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=20, deadline=None)


def context(row: ServedResourceRow) -> Context:
    """A call to the kind."""
    return Context(namespace="default" if row.info.namespaced else "")


@KINDS
@FEW
@given(seed=SEEDS)
def test_validation_never_fails(row: ServedResourceRow, seed: int) -> None:
    """Every decoded object is valid or has errors: validation and warnings never raise."""
    strategy, call = known().strategy(row, has_status=True), context(row)
    obj, other = make(row, seed), make(row, seed + 1)
    try:
        strategy.prepare_for_create(call, obj)
        strategy.prepare_for_update(call, other, obj)
    except ApiError:
        return
    result = [*strategy.validate(call, obj), *strategy.validate_update(call, other, obj)]
    if isinstance(strategy, HasStatusRules):
        strategy.prepare_status(call, other, obj)
        result += strategy.validate_status(call, other, obj)
    assert api_errors.invalid("K", "g", "n", result).code == 422
    for warning in (*strategy.warnings(call, obj, None), *strategy.warnings(call, other, obj)):
        assert isinstance(warning, str)
    for key in strategy.selectable:
        assert isinstance(strategy.selectable[key](obj), str)


@KINDS
@FEW
@given(seed=SEEDS)
def test_an_object_is_no_change_of_itself(row: ServedResourceRow, seed: int) -> None:
    """An object that can be created passes an unchanged update with no new errors."""
    strategy, call = known().strategy(row, has_status=True), context(row)
    obj = make(row, seed)
    try:
        strategy.prepare_for_create(call, obj)
    except ApiError:
        return
    result = list(strategy.validate(call, obj))
    if any(cause.reason == "FieldValueDuplicate" for cause in result):
        return  # Which of two of the same name was which cannot be told.
    before = {cause.field for cause in result}
    again = copy_tree(obj)
    strategy.prepare_for_update(call, again, obj)
    after = {cause.field for cause in strategy.validate_update(call, again, obj)}
    assert not after - before


@KINDS
@FEW
@given(seed=SEEDS)
def test_defaults_are_filled_in_once(row: ServedResourceRow, seed: int) -> None:
    """Defaulting twice changes nothing, nor does decoding the encoded object."""
    obj = make(row, seed)
    model = model_of(row)
    assert model.default(copy_tree(obj)) == obj
    read = model.decode(copy_tree(obj))
    assert read.problems == []
    assert model.default(read.obj) == obj


_TOKEN = re.compile(r"\.?([^.\[\]]+)|\[(.*?)\](?=[.\[]|$)")
# What the server looks at is its own form of an object, in which some things stand elsewhere.
_ELSEWHERE = re.compile(
    r"metadata\.taints|status\.(capacity|allocatable)\.|.*\{topologyKey|spec\.scopeSelector\.matchExpressions\."
    r"|name$|.*overhead\.(podFixed\.)?limits|.*volumeMounts\.\w|metadata\.annotations|data\[|.*initiatorname|.*\.HostPID"
    r"|.*initContainers\[0\]\.ports|.*\.HostIPC|.*\.namespace$|spec\.LoadBalancerSourceRanges|spec\.match\w+\.resourceRules\.operations|\[\]"
)
_OWN_FORM = ("customresourcedefinitions",)


def _there(obj: Any, path: str) -> bool:
    """Whether a path leads to something in an object, or to what is missing there."""
    tokens = [(name, key) for name, key in _TOKEN.findall(path)]
    for index, (name, key) in enumerate(tokens):
        last = index == len(tokens) - 1
        if isinstance(obj, dict) and (name or key) in obj:
            obj = obj[name or key]
        elif isinstance(obj, list) and key.isdigit() and int(key) < len(obj):
            obj = obj[int(key)]
        else:
            return last and (obj is None or isinstance(obj, (dict, list)))
    return True


@KINDS
@FEW
@given(seed=SEEDS)
def test_what_is_wrong_is_there_or_missing_there(row: ServedResourceRow, seed: int) -> None:
    """Each error names a path that exists in the object, or one where a value is missing."""
    strategy, call = known().strategy(row, has_status=True), context(row)
    obj = make(row, seed)
    try:
        strategy.prepare_for_create(call, obj)
    except ApiError:
        return
    if row.info.resource in _OWN_FORM:
        return
    for cause in strategy.validate(call, obj):
        assert _ELSEWHERE.match(cause.field) or _there(obj, cause.field), cause.field
