"""What a browser sends."""

from __future__ import annotations

from urllib.parse import unquote

from hypothesis import example, given
from hypothesis import strategies as st

from opsdk.http.server.request import HttpRequest, Query
from opsdk.norman.origin import cookie_of

PARTS = st.sampled_from([";", " ", "=", "a", "ab", "A", "b", "%20", "\t", "\xa0", '"'])


@given(st.lists(PARTS, max_size=20).map("".join))
@example("a=1; a=2")
@example("ba=1; a =x=y;")
def test_a_cookie_is_the_first_of_its_name(header: str) -> None:
    """Blanks around names and values do not count, and a pair without a value is no cookie of the name."""
    request = HttpRequest("GET", "/", Query(), {"cookie": header}, receive=...)  # type: ignore[arg-type]
    pairs = [pair.partition("=") for pair in header.split(";")]
    values = [unquote(value.strip()) for key, equals, value in pairs if key.strip() == "a" and equals]
    assert cookie_of(request, "a") == (values[0] if values else "")
