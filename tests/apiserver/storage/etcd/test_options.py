"""Options of the storage on etcd."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsdk.apiserver.storage.etcd.options import EtcdOptions
from opsdk.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"endpoints": ()}, "at least one endpoint"),
        ({"endpoints": ("etcd:2379",)}, "write http://HOST:PORT"),
        ({"endpoints": ("http://etcd",)}, "write http://HOST:PORT"),
        ({"endpoints": ("http://etcd:99999",)}, "not a URL of an etcd member"),
        ({"endpoints": ("http://etcd:2379/v3",)}, "write http://HOST:PORT"),
        ({"endpoints": ("http://a:1", "https://b:2")}, "mix http and https"),
        ({"prefix": "registry"}, "begin and end with a slash"),
        ({"endpoints": ("https://a:1",), "cert_file": Path("a")}, "both cert_file and key_file"),
        ({"ca_file": Path("a")}, "need endpoints with https"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object], text: str) -> None:
    """The error names the option and the remedy."""
    with pytest.raises(ConfigError, match=text):
        EtcdOptions(**options)


def test_the_password_is_not_shown() -> None:
    """`repr` shows endpoints, prefix and user only."""
    text = repr(EtcdOptions(user="root", password="secret"))
    assert text == "<EtcdOptions: http://127.0.0.1:2379, prefix /registry/, user root>"


def test_clear_text_to_another_machine_is_refused() -> None:
    """``http`` to another machine needs `insecure`; loopback does not."""
    with pytest.raises(ConfigError, match="clear text"):
        EtcdOptions(endpoints=("http://127.0.0.1:2379", "http://10.0.0.1:2379"))
    for endpoint in ("http://localhost:1", "http://[::1]:1", "http://127.0.0.9:1", "https://etcd:1"):
        assert EtcdOptions(endpoints=(endpoint,)).endpoints == (endpoint,)
    assert EtcdOptions(endpoints=("http://etcd:1",), insecure=True).insecure
