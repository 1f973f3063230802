"""Cached objects of plugins always equal the stored ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.admission.object_cache import ObjectCache
from opsdk.apiserver.storage.memory import MemoryStorage

PREFIX = "core/limitranges/"
KEYS = st.tuples(
    st.sampled_from(("core/limitranges/", "core/limitrangesother/")), st.sampled_from("ab"), st.sampled_from("xyz")
)


@given(st.lists(st.tuples(st.booleans(), KEYS, st.booleans())))
def test_kept_objects_are_those_of_the_storage(steps: list[tuple[bool, tuple[str, str, str], bool]]) -> None:
    """After any writes, the cache returns the stored objects of each namespace, sorted by name."""
    storage = MemoryStorage()
    cache = ObjectCache(storage, PREFIX)
    model: dict[str, int] = {}
    for number, (put, (prefix, namespace, name), ask) in enumerate(steps):
        key = f"{prefix}{namespace}/{name}"
        if put and key not in model:
            storage.create_now(key, {"metadata": {"name": name}, "n": number})
            model[key] = number
        elif not put and key in model:
            storage.delete_now(key)
            del model[key]
        if ask:
            for place in "ab":
                expected = sorted((k, n) for k, n in model.items() if k.startswith(f"{PREFIX}{place}/"))
                assert [obj["n"] for obj in cache.of(place)] == [n for _, n in expected]
                for one in "xyz":
                    result = cache.get(one, place)
                    assert (None if result is None else result["n"]) == model.get(f"{PREFIX}{place}/{one}")
