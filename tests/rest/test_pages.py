"""Lists that never end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import ResponseLimitError
from opsdk.rest.pages import MOST_EMPTY, Pages


@given(st.lists(st.text(max_size=2), max_size=30))
def test_a_token_leads_to_one_page(tokens: list[str]) -> None:
    """The first token that repeats ends the list, whatever comes in between."""
    pages, earlier = Pages("pods"), set[str]()
    for token in tokens:
        if token in earlier:
            with pytest.raises(ResponseLimitError, match="repeats a continue token"):
                pages.check(token, progress=True)
            return
        earlier.add(token)
        pages.check(token, progress=True)


def test_pages_without_progress_end() -> None:
    """Empty pages with new tokens are an error after a while; one object starts the count again."""
    pages = Pages("pods")
    for number in range(MOST_EMPTY - 1):
        pages.check(f"a{number}", progress=False)
    pages.check("object", progress=True)
    for number in range(MOST_EMPTY - 1):
        pages.check(f"b{number}", progress=False)
    with pytest.raises(ResponseLimitError, match="no new object for 1000 pages"):
        pages.check("last", progress=False)


def test_the_number_of_pages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list whose pages all bring objects ends too."""
    monkeypatch.setattr("opsdk.rest.pages.MOST_PAGES", 10)
    pages = Pages("pods")
    for number in range(9):
        pages.check(str(number), progress=True)
    with pytest.raises(ResponseLimitError, match="more than 10 pages"):
        pages.check("9", progress=True)
