"""Laws of `opsdk.rest.plain_yaml`."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opsdk.rest.plain_yaml import parse_plain_yaml

WORDS = st.sampled_from(
    [
        *(
            "a",
            "b-c",
            "no",
            "Yes",
            "null",
            "~",
            "true",
            "1",
            "1.5",
            "0x1",
            "2026-01-01",
            "a: b",
            "a:b",
            "a#b",
            "a #b",
            "",
        ),
        *("-", "- a", "x y", "'q'", '"d"', "LS0t+/=", "https://10.0.0.1:6443", "/etc/x", "&a", "*a", "!t", "|", ">"),
        *("{}", "[]", "k:", "? a", "---", "...", "=", "<<", "%", "@a", "`", "a,b", "{a: b}", "[a]", "é"),
    ]
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)
LINES = st.lists(
    st.builds(
        lambda indent, dash, key, value: " " * indent + dash + key + value,
        st.integers(0, 5),
        st.sampled_from(["", "", "- ", "-", "-  ", "- - "]),
        st.sampled_from(["", "a:", "b:", "c: ", "d:  ", "no: ", "e :", "'f': ", "a: "]),
        st.just("") | WORDS,
    ),
    max_size=6,
).map("\n".join)

KUBECONFIG = """\
apiVersion: v1
kind: Config
preferences: {}
current-context: kind-kind
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTi==
    server: https://127.0.0.1:6443
  name: kind-kind
contexts:
- context:
    cluster: kind-kind
    user: kind-kind
  name: kind-kind
users:
- name: kind-kind
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: aws
      env: null
      interactiveMode: IfAvailable
      provideClusterInfo: false
      args:
        - eks
        - get-token
"""


def _expected(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return "not YAML"


@given(TREES, st.sampled_from([None, "'", '"']), st.booleans())
def test_what_is_read_is_what_pyyaml_reads(tree: Any, style: str | None, flow: bool) -> None:
    """Any tree in several styles: either the same tree, or left to PyYAML."""
    text = yaml.safe_dump(tree, default_style=style, default_flow_style=flow)
    plain = parse_plain_yaml(text)
    assert plain is None or plain == _expected(text)


@given(LINES)
def test_odd_lines_are_read_as_pyyaml_reads_them(text: str) -> None:
    """Indentation, dashes and special words in any order: the same tree, or left to PyYAML."""
    plain = parse_plain_yaml(text)
    assert plain is None or (plain == _expected(text) and repr(plain) == repr(_expected(text)))


@pytest.mark.parametrize("text", [KUBECONFIG, f"---\n# a comment\n{KUBECONFIG}", "a: \"b c\"\nd: ''\n"])
def test_kubeconfigs_are_plain(text: str) -> None:
    """The form that kind, cloud providers and kubectl write."""
    assert parse_plain_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text", ["", "a", "- a", "a: 1", "a: b c", "a: é", "a:\tb", "a: b\r\nc: d", "a: &x b", "a: b\na: c"]
)
def test_other_texts_are_left(text: str) -> None:
    """Numbers, spaces, anchors, repeated keys and all that is no mapping."""
    assert parse_plain_yaml(text) is None
