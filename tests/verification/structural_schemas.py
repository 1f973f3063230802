"""Random structural schemas of custom resources, with bounds, list types, alternatives and rules."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from opsdk.structured_merge.value import JsonObject
from tests.verification.public_definitions import definition

PATTERNS = (
    "^[a-z]+$",
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    r"^(\d+)(\.\d+){0,2}$",
    "^(red|green|blue)$",
    "^[A-Z][a-zA-Z]{2,9}$",
    "[0-9]+(s|m|h)",
    r"^\w+@\w+\.\w+$",
    "^v[0-9]+((alpha|beta)[0-9]+)?$",
)
FORMATS = ("date-time", "uuid", "ipv4", "byte", "duration", "uri", "date", "email", "hostname", "cidr")
NAMES = ("alpha", "beta", "replicas", "image", "port", "secretName", "storageSize", "labels", "timeout", "schedule")


def optional(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonObject]:
    """Return dicts with some of these keywords."""
    return st.fixed_dictionaries({}, optional=keywords)


@st.composite
def bounds(draw: st.DrawFn, low: str, high: str, least: int, most: int) -> JsonObject:
    """Return a lower bound, an upper bound, both or neither; the upper one is not below the other."""
    keywords = draw(optional(**{low: st.integers(least, most), high: st.integers(least, most)}))
    if low in keywords and high in keywords:
        keywords[high] = max(keywords.values())
    return keywords


def strings() -> st.SearchStrategy[JsonObject]:
    """Return schemas of strings."""
    return st.one_of(
        bounds("minLength", "maxLength", 0, 80),
        st.sampled_from(PATTERNS).map(lambda pattern: {"pattern": pattern}),
        st.sampled_from(FORMATS).map(lambda form: {"format": form}),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True).map(lambda names: {"enum": names}),
    ).map(lambda keywords: {"type": "string", **keywords})


@st.composite
def numbers(draw: st.DrawFn) -> JsonObject:
    """Return schemas of integers and numbers."""
    keywords = draw(bounds("minimum", "maximum", -20, 200))
    if keywords.get("minimum", 0) + 10 < keywords.get("maximum", 50):
        keywords |= draw(optional(multipleOf=st.sampled_from((2, 5))))
        keywords |= draw(
            optional(**{f"exclusive{one.capitalize()}": st.just(value=True) for one in keywords if one != "multipleOf"})
        )
    kind = draw(st.sampled_from(("integer", "number")))
    form = draw(optional(format=st.sampled_from(("int32", "int64") if kind == "integer" else ("double", "float"))))
    rules = [{"rule": "self != 7"}] if kind == "integer" and draw(st.booleans()) else []
    return {"type": kind, **keywords, **form, **({"x-kubernetes-validations": rules} if rules else {})}


def leaves() -> st.SearchStrategy[JsonObject]:
    """Return schemas of values without nested ones."""
    return st.one_of(
        strings(),
        numbers(),
        st.just({"type": "boolean"}),
        st.just({"type": "boolean", "default": True}),
        st.just({"x-kubernetes-int-or-string": True}),
        st.just({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    )


@st.composite
def objects(draw: st.DrawFn, below: st.SearchStrategy[JsonObject]) -> JsonObject:
    """Return schemas of objects with a few fields, and perhaps alternatives."""
    properties = draw(st.dictionaries(st.sampled_from(NAMES), below, min_size=1, max_size=4))
    names = sorted(properties)
    schema: JsonObject = {"type": "object", "properties": properties}
    required = draw(st.lists(st.sampled_from(names), unique=True))
    rest = [name for name in names if name not in required]
    if required:
        schema["required"] = required
    if len(rest) >= 2 and draw(st.booleans()):
        keyword = draw(st.sampled_from(("oneOf", "anyOf")))
        schema[keyword] = [{"required": [rest[0]]}, {"required": [rest[1]]}]
    elif len(rest) >= 2 and draw(st.booleans()):
        schema["x-kubernetes-validations"] = [{"rule": f"has(self.{rest[0]}) || !has(self.{rest[1]})"}]
    return schema


@st.composite
def lists(draw: st.DrawFn, below: st.SearchStrategy[JsonObject]) -> JsonObject:
    """Return schemas of lists: plain ones, sets of strings, and map lists."""
    sizes = draw(bounds("minItems", "maxItems", 0, 5))
    match draw(st.sampled_from(("atomic", "set", "map"))):
        case "set":
            return {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", **sizes}
        case "map":
            fields = {"name": {"type": "string", "maxLength": 63}, "value": draw(below)}
            items = {"type": "object", "properties": fields, "required": ["name"]}
            keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
            return {"type": "array", "items": items, **keys, **sizes, "maxItems": max(sizes.get("maxItems", 9), 1)}
    return {"type": "array", "items": draw(below), **sizes, "maxItems": max(5, sizes.get("maxItems", 9))}


def maps(below: st.SearchStrategy[JsonObject]) -> st.SearchStrategy[JsonObject]:
    """Return schemas of maps."""
    sizes = bounds("minProperties", "maxProperties", 0, 4)
    return st.builds(
        lambda value, keywords: {"type": "object", "additionalProperties": value, "maxProperties": 9, **keywords},
        below,
        sizes,
    )


def nested(below: st.SearchStrategy[JsonObject]) -> st.SearchStrategy[JsonObject]:
    """Return schemas of values with nested ones, some of them nullable."""
    one = st.one_of(objects(below), lists(below), maps(below))
    return st.builds(lambda schema, nullable: {**schema, **nullable}, one, optional(nullable=st.just(value=True)))


specs = objects(st.recursive(leaves(), nested, max_leaves=8))
"""Schemas of specs; some of them admit no value."""


def random_definition(spec: JsonObject, number: int = 0) -> JsonObject:
    """Return the definition of a kind whose objects have such a spec."""
    return definition(f"Random{number}", spec)
