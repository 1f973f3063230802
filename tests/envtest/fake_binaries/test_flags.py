"""Command lines of Go programs: all notations are equivalent, and invalid ones are errors."""

from __future__ import annotations

import asyncio
import ssl
from string import ascii_lowercase, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.environment import Environment
from envtest.fake_binaries.apiserver import bind_host
from envtest.fake_binaries.flags import Flags, parse
from opsdk.errors import ConfigError

letters, signs = st.sampled_from(ascii_lowercase), ascii_lowercase + digits
names = st.builds(
    lambda head, tail, more: "-".join([head + tail, *more]),
    letters,
    st.text(signs),
    st.lists(st.text(signs, min_size=1)),
)  # as [a-z][a-z0-9]*(-[a-z0-9]+)*, which takes five times as long to draw
values = st.text(max_size=20).filter(lambda text: not text.startswith("--"))


@given(st.lists(st.tuples(names, values, st.booleans()), max_size=8))
def test_both_forms_say_the_same(given_flags: list[tuple[str, str, bool]]) -> None:
    """``--a=b`` and ``--a b`` are equal; each value is kept, in order."""
    words, expected = [], dict[str, list[str]]()
    for name, value, joined in given_flags:
        words += [f"--{name}={value}"] if joined else [f"--{name}", value]
        expected.setdefault(name, []).append(value)
    assert parse(words, switches=()).values == expected


def test_a_switch_takes_no_value() -> None:
    """A switch, a flag before another flag, and a last flag have the value true."""
    parsed = parse(["--fast", "--unknown", "--port", "1", "--last"], switches={"fast"})
    assert parsed.values == {"fast": ["true"], "unknown": ["true"], "port": ["1"], "last": ["true"]}
    with pytest.raises(ConfigError, match="unknown command 'yes'"):
        parse(["--fast", "yes"], switches={"fast"})


@given(st.text(max_size=10).filter(lambda text: not text.startswith("--")))
def test_positional_arguments_are_refused(word: str) -> None:
    """A positional argument is an error."""
    with pytest.raises(ConfigError, match="flags only"):
        parse([word], switches=())


def test_values_are_read_as_their_kind() -> None:
    """Flags have lists, numbers and switches as values; the last of several single values wins."""
    flags = Flags({"a": ["x,y", "z"], "n": ["5"], "on": ["t"], "off": ["FALSE"], "bad": ["maybe"]})
    assert flags.listed("a") == ("x", "y", "z")
    assert flags.listed("b", ["d"]) == ("d",)
    assert flags.each("a") == ("x,y", "z")
    assert flags.text("a") == "z"
    assert flags.number("n", 1) == 5
    assert flags.number("m", 1) == 1
    assert flags.switch("on", default=False)
    assert not flags.switch("off", default=True)
    assert flags.switch("none", default=True)
    assert flags.unknown_flags({"a", "n", "on"}) == ["bad", "off"]
    with pytest.raises(ConfigError, match='invalid argument "maybe" for "--bad" flag'):
        flags.switch("bad", default=False)
    with pytest.raises(ConfigError, match='invalid argument "maybe" for "--bad" flag'):
        flags.number("bad", 1)


@pytest.mark.parametrize(
    ("words", "host"),
    [
        ([], ""),
        (["--bind-address="], ""),
        (["--bind-address=0.0.0.0"], ""),
        (["--bind-address=::"], ""),
        (["--bind-address=::1"], "::1"),
        (["--bind-address=127.0.0.1"], "127.0.0.1"),
    ],
)
def test_an_unspecified_address_is_all_interfaces(words: list[str], host: str) -> None:
    """kube-apiserver serves IPv4 and IPv6 where the flag is unset, blank or unspecified."""
    assert bind_host(parse(words, switches=())) == host


@pytest.mark.realtime
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_all_interfaces_have_both_families(host: str) -> None:
    """The server takes connections of IPv4 and IPv6, and its certificate is valid for both."""
    async with Environment() as env:
        web = await env.serve(host=bind_host(parse([], switches=())))
        tls = ssl.create_default_context(cadata=env.authority.pair.cert.decode())
        _, writer = await asyncio.open_connection(host, web.port, ssl=tls)
        writer.close()
