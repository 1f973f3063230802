"""Laws of cost estimates: no evaluation costs more, and sums never overflow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.expressions.environment import kubernetes_environment
from opsdk.apiserver.expressions.schema_types import declare
from opsdk.apiserver.expressions.schema_values import converter
from opsdk.cel.declarations import MOST, Range, exactly
from opsdk.cel.environment import Program

RANGES = st.builds(
    lambda a, b: Range(min(a, b), max(a, b)), st.integers(0, MOST) | st.just(3), st.integers(0, MOST) | st.just(MOST)
)


@given(RANGES, RANGES)
def test_ranges_stay_ranges(one: Range, other: Range) -> None:
    """Every computed cost range lies between zero and the maximum."""
    for item in (one + other, one * other, one | other, one.scaled(0.1), other.scaled(7.5)):
        assert 0 <= item.least <= item.most <= MOST
    assert (one | other).least <= one.least
    assert one + exactly(0) == one
    assert one * exactly(1) == one


TEXT = {"type": "string", "maxLength": 8}
SCHEMA = {
    "type": "object",
    "properties": {
        "s": TEXT,
        "t": TEXT,
        "l": {"type": "array", "maxItems": 5, "items": TEXT},
        "m": {"type": "object", "maxProperties": 3, "additionalProperties": TEXT},
        "o": {"type": "array", "maxItems": 4, "items": {"type": "object", "properties": {"k": TEXT}}},
    },
}
DECLARED = declare(SCHEMA, "selfType")
assert DECLARED is not None
ENVIRONMENT = kubernetes_environment().extend(variables={"self": DECLARED.type})
BIND = converter(SCHEMA, DECLARED.type)

RULES = [
    "self.s == self.t",
    "self.s + self.t != ''",
    "self.s.contains(self.t)",
    "self.s.matches('^[a-z]+$') || self.t.matches('[0-9]')",
    "self.l.all(x, x.size() > 0)",
    "self.l.all(x, self.l.exists(y, x == y))",
    "self.l.exists_one(x, x == self.s)",
    "self.l.map(x, x + self.t).filter(x, x != '').size() >= 0",
    "self.l.map(x, x > 'a', x).all(x, x.contains(self.s))",
    "self.m.all(k, self.m[k].size() >= 0)",
    "self.m.transformList(k, v, k + v).size() >= 0",
    "self.l.all(i, v, i >= 0 && v != self.s)",
    "self.o.all(e, has(e.k) && e.k.replace('a', 'bb').lowerAscii() == e.k)",
    "self.o.map(e, e.?k.orValue('')).isSorted() || true",
    "self.l.join(',').split(',').size() >= 0",
    "self.s in self.l || self.s in self.m",
    "self.s.find('a+') == '' || self.t.findAll('a').size() > 0",
    "self.l.sort().size() == self.l.reverse().size()",
    "(self.s > self.t ? self.l : self.l + ['x']).all(x, x != 'q')",
    "sets.contains(self.l, self.l) && self.l.indexOf(self.s) >= -1",
    "self.l[0] == self.s || true",
    "'%s-%s'.format([self.s, self.t]).size() > 0",
]
PROGRAMS: dict[str, Program] = {rule: ENVIRONMENT.compile(rule) for rule in RULES}
WORDS = st.text(st.sampled_from("abä"), max_size=8)
OBJECTS = st.fixed_dictionaries(
    {
        "s": WORDS,
        "t": WORDS,
        "l": st.lists(WORDS, max_size=5),
        "m": st.dictionaries(st.text(st.sampled_from("ab"), max_size=2), WORDS, max_size=3),
        "o": st.lists(st.fixed_dictionaries({}, optional={"k": WORDS}), max_size=4),
    }
)


@pytest.mark.parametrize("rule", RULES)
def test_no_evaluation_costs_more_than_was_estimated(rule: str) -> None:
    """The estimate is an upper bound of the cost for values that match the schema."""
    program = PROGRAMS[rule]
    most = program.estimate(DECLARED.size).most

    @given(OBJECTS)
    def holds(tree: dict[str, object]) -> None:
        assert program.run({"self": BIND(tree)}).cost <= most

    holds()


@pytest.mark.parametrize(
    ("rule", "schema", "cost"),
    [
        ("self.a == 1", {"a": {"type": "integer"}}, 2),
        ("self.s == 'abcdefghijk'", {"s": {"type": "string"}}, 4),
        ("has(self.s) && self.s.size() > 1", {"s": {"type": "string"}}, 5),
        ("self.s.startsWith('abc')", {"s": {"type": "string"}}, 3),
        ("self.l.all(x, x > 0)", {"l": {"type": "array", "maxItems": 10, "items": {"type": "integer"}}}, 53),
        ("self.l.map(x, x).size() > 0", {"l": {"type": "array", "maxItems": 10, "items": {"type": "integer"}}}, 145),
        (
            "self.m.all(k, true)",
            {"m": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string"}}},
            15,
        ),
        ("self.s.matches('a.b')", {"s": {"type": "string", "maxLength": 10}}, 7),
        ("self.s + self.s == 'x'", {"s": {"type": "string", "maxLength": 5}}, 9),
        ("['a', 'b'].join('-') == 'a-b'", {"s": {"type": "string"}}, None),
    ],
)
def test_costs_are_the_servers(rule: str, schema: dict[str, object], cost: int | None) -> None:
    """Numbers that definitions depend on: a rule that is welcome at the real server is welcome here."""
    declared = declare({"type": "object", "properties": schema}, "selfType")
    assert declared is not None
    program = kubernetes_environment().extend(variables={"self": declared.type}).compile(rule)
    result = program.estimate(declared.size).most
    assert result < MOST if cost is None else result == cost
