"""Values of debug pages that may have any form."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cli.top.untrusted import MAX_ROWS, clean, counts, mapping, mappings, number, read

HARMFUL = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row with a field of each type."""

    text: str = ""
    amount: int = 0
    seconds: float = 0.0
    age: float | None = None
    ready: bool = False
    names: tuple[str, ...] = ()


@given(st.text() | st.text(alphabet=st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Lu"])))
def test_a_clean_text_has_no_control_characters(text: str) -> None:
    """Nothing in a clean text begins an escape sequence, ends a line, or changes the direction of one."""
    assert not any(unicodedata.category(char) in HARMFUL for char in clean(text).removesuffix("…"))
    assert len(clean(text, 10)) <= 11


def test_a_plain_text_stays_as_it_is() -> None:
    """Names of objects, other scripts and brackets are not changed: nothing here is markup."""
    for text in ("shop/site-1", "[red]x[/]", "naïve 東京", ""):
        assert clean(text) == text
    assert clean("a\nb\tc") == "a b c"
    assert [clean(value) for value in (None, 1, ["x"], {})] == [""] * 4


@given(ANYTHING)
def test_any_value_can_be_read(value: Any) -> None:
    """A value of a wrong type counts as missing, and numbers are finite."""
    amount = number(value)
    assert amount is None or abs(amount) <= 1e15
    for row in (*mappings(value), mapping(value)):
        parsed = read(Row, dict.fromkeys(Row.__struct_fields__, value))
        assert isinstance(parsed.text, str)
        assert isinstance(parsed.ready, bool)
        assert all(isinstance(name, str) for name in parsed.names)
        assert all(isinstance(total, int) for total in counts(row).values())


def test_values_of_the_right_type_are_kept() -> None:
    """A row has the values of the page, and the defaults of what is missing or wrong."""
    row = {"text": "a", "amount": 2.0, "seconds": 1, "age": 3.5, "ready": True, "names": ["x", 1]}
    assert read(Row, row) == Row(text="a", amount=2, seconds=1.0, age=3.5, ready=True, names=("x", ""))
    wrong = {"text": 1, "amount": "2", "seconds": True, "age": "x", "ready": 1, "names": "x"}
    assert read(Row, wrong, amount=7) == Row(amount=7)


def test_long_lists_are_cut() -> None:
    """A page with a million rows costs as much as one with five hundred."""
    assert len(list(mappings([{}] * 100_000))) == MAX_ROWS
    assert len(counts({str(n): n for n in range(10_000)})) == 50
    assert len(read(Row, {"names": ["x"] * 10_000}).names) == 50
