"""Checks in CEL: what they say of objects, and how wrong ones are named."""

from __future__ import annotations

import pytest

import envtest
from opsdk import ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.cluster.cluster import Cluster
from opsdk.errors import UsageError
from opsdk.verification.checks import parse_check


@pytest.mark.parametrize("text", ["configmaps", ":true", "configmaps:", "configmaps: self.", "configmaps: 1 + 1"])
def test_a_wrong_check_is_an_error(text: str) -> None:
    """The message has the text."""
    with pytest.raises(UsageError) as caught:
        parse_check(text)
    assert repr(text) in str(caught.value)


async def test_each_object_that_breaks_a_check_is_named() -> None:
    """With the expression, and with what it gives: false, or an error."""
    check = parse_check("configmaps: self.data.text == 'one'")
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        client = cluster.uncached
        for name, data in (("a", {"text": "one"}), ("b", {"text": "two"}), ("c", {"other": ""})):
            await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data))
        first, second = await check.violations(client)
        assert first == "configmaps default/b: self.data.text == 'one': is false"
        assert second.startswith("configmaps default/c: self.data.text == 'one': no such key")
        with pytest.raises(UsageError, match=r"--check unicorns: .*name a kind of the operator"):
            await parse_check("unicorns: true").violations(client)
