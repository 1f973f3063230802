"""String formats and patterns."""

from __future__ import annotations

import pytest

from opsdk.apiserver.strfmt import FORMATS
from opsdk.cel.regex import compile_regex
from opsdk.errors import UsageError


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2020-01-02T03:04:05Z", "2020-01-02t03:04:05.5+01:00", "2020-01-02T03:04:05,5Z"],
            ["2020-01-02T03:04:05", "2020-13-02T03:04:05Z", "x"],
        ),
        ("date", ["2020-02-29", "0000-02-29"], ["2021-02-29", "2020-1-2", "20200102"]),
        (
            "duration",
            ["1h30m", "-1.5s", "0", "2 days", "in 5 mins", "1H", "4secon", "4d4", "1m1"],
            ["5 parsecs", "", "1", "1hrs", "4month", "99999999999999999999d"],
        ),
        ("ipv4", ["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], ["1.2.3.256", "::1", "1.2.3.4/8"]),
        ("ipv6", ["::1", "fe80::1"], ["1.2.3.4", "fe80::1%eth0"]),
        (
            "cidr",
            ["10.0.0.0/8", "::/0", "10.1.2.3/8", "010.0.0.0/08"],
            ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/255.0.0.0"],
        ),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["xyz", ""]),
        ("uuid4", ["123e4567-e89b-42d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-426614174000"]),
        (
            "email",
            ["a@b.c", "é@b.c", '"a b"@c', "A <a@b.c>", " a@b.c (x)"],
            ["nobody", "a b@c", "a@b..c", ".a@b", "a@b,c@d"],
        ),
        (
            "uri",
            ["http://x/y", "/path", "*", "urn:a", "/a b", "http://x:99999", "http://[::1]:80/?q=1 2"],
            ["not a uri", "", "relative", ":a", "/%zz", "http://a b", "http://[::1", "http://a:b"],
        ),
        ("byte", ["aGk=", "YW=="], ["***", "aGk", ""]),
        (
            "hostname",
            ["a.example.com", "a-b", "1", "é.éé", "a+b", "a-b-c.de"],
            ["under_score", "-a", "a..b", "foo-bar", "1.2.3.4", "a.b", "a.com.", "a" * 64],
        ),
        ("mac", ["01:23:45:67:89:ab", "0123.4567.89ab", "0123456789ab"], ["zz", "01:23:45:67:89"]),
        ("isbn10", ["3-598-21508-8"], ["3-598-21508-9"]),
        ("isbn13", ["978-0-306-40615-7"], ["978-0-306-40615-8"]),
        ("creditcard", ["4111 1111 1111 1111", "30000000000004"], ["4111 1111 1111 1112", "1", "0000000000000000"]),
        ("hexcolor", ["#fff", "a0b1c2"], ["#ffff"]),
        ("rgbcolor", ["rgb(1, 2,255)"], ["rgb(1,2,256)"]),
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f"]),
        ("ssn", ["123-45-6789", "123 45 6789"], ["12-345-6789", "123456789"]),
        ("password", ["anything"], []),
        ("k8s-short-name", ["a-b"], ["A", "-a"]),
        ("k8s-long-name", ["a.b-c", "a" * 64], ["a..b"]),
    ],
)
def test_each_format_accepts_and_rejects_what_strfmt_does(name: str, good: list[str], bad: list[str]) -> None:
    """Each format accepts the texts that go-openapi/strfmt accepts, and rejects similar invalid ones."""
    assert [text for text in good if not FORMATS[name](text)] == []
    assert [text for text in bad if FORMATS[name](text)] == []


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^a$", ["a"], ["a\n", "ba"]),
        ("a", ["bab"], ["b"]),
        (r"^\d+\z", ["12"], ["1x", "٣"]),
        (r"^[[:alpha:]]+$", ["ab"], ["a1"]),
        (r"^[^[:space:]]+$", ["ab"], ["a b"]),
        (r"^\Qa.b\E$", ["a.b"], ["axb"]),
        (r"^\p{L}+$", ["aé"], ["a1"]),
        (r"^[\p{L}-]+$", ["ä-b"], ["1"]),
        (r"^[$]$", ["$"], ["x"]),
        (r"^[]a]$", ["]", "a"], ["b"]),
        (r"^(?P<x>a)(?<y>b)$", ["ab"], ["a"]),
        (r"(?i)^abc$", ["ABC"], ["x"]),
    ],
)
def test_patterns_mean_what_re2_means(pattern: str, good: list[str], bad: list[str]) -> None:
    """``$`` matches only at the end, and character classes are RE2's."""
    if not good and not bad:
        with pytest.raises(UsageError):
            compile_regex(pattern)
        return
    compiled = compile_regex(pattern)
    assert all(compiled.search(text) for text in good)
    assert not any(compiled.search(text) for text in bad)


@pytest.mark.parametrize("pattern", ["(", "a**", r"(a)\1", "a(?=b)", "(?<!a)b", "[[:nope:]]"])
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    """A schema with such a pattern must not be accepted."""
    with pytest.raises(UsageError):
        compile_regex(pattern)


def test_formats_take_time_in_proportion() -> None:
    """Formats are checked in linear time."""
    assert not FORMATS["email"]("a " * 5000)
    assert not FORMATS["hostname"]("a-" * 120)
    assert not FORMATS["duration"]("9" * 200_000)


def test_numbers_of_any_length_are_read() -> None:
    """More digits than an int64 has make a number that is too large, leading zeros aside."""
    assert not FORMATS["duration"]("9" * 5000 + " days")
    assert FORMATS["duration"]("0" * 5000 + "9 days")


@pytest.mark.parametrize("part", ["a?", "(a*)*", "(a|b)*", "[a-z]"])
def test_an_expression_that_compiles_in_quadratic_time_is_refused(part: str) -> None:
    """RE2 parses 100,000 characters of `a?` for seconds; Go refuses a program that is too large with this message."""
    fits = part * (10_000 // len(part))
    assert compile_regex(fits)
    with pytest.raises(UsageError, match=r"error parsing regexp: expression too large"):
        compile_regex(fits + part)
