"""Caches of texts that clients choose keep no long text."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from contextlib import suppress

import pytest

from envtest.extensions import jsonpath
from opsdk.apiserver.expressions.admission import compile_condition
from opsdk.cel.errors import CelError
from opsdk.cel.regex import compile_regex
from opsdk.errors import OpsdkError
from opsdk.structured_merge.fieldpath import FieldSet, key_element


def _decode_fields(text: str) -> None:
    elements = (f"f:{text}", f'k:{{"name":"{text}"}}', f'v:"{text}"')
    fields = FieldSet.from_fields_v1({element: {} for element in elements})
    fields.to_fields_v1()
    list(fields)


USES: dict[str, Callable[[str], object]] = {
    "managed fields": _decode_fields,
    "key of a list element": lambda text: key_element({"name": text}),
    "match condition": lambda text: compile_condition(f"'{text}' == ''"),
    "pattern": compile_regex,
    "JSONPath": lambda text: jsonpath.valid(f".{text}"),
}


def _cached_entries() -> dict[str, int]:
    """Return the entries of each `lru_cache` of this project."""
    caches = [obj for obj in gc.get_objects() if isinstance(obj, type(functools.lru_cache(len)))]
    own = [cache for cache in caches if cache.__module__.startswith(("opsdk.", "envtest."))]
    return {f"{cache.__module__}.{cache.__qualname__}": cache.cache_info().currsize for cache in own}


@pytest.mark.parametrize("use", USES)
def test_a_long_text_is_not_cached(use: str) -> None:
    """No cache grows by texts of 100 KB."""
    USES[use]("short")  # fills caches that depend on no text
    before = _cached_entries()
    for number in range(5):
        with suppress(OpsdkError, CelError):
            USES[use](f"{len(use):02}{number:04}".rjust(100_000, "x"))
    after = _cached_entries()
    assert {name: size - before[name] for name, size in after.items() if size > before[name] + 1} == {}
