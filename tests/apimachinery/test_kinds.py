"""Kinds: the error for a class without a kind names its place."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.kinds import class_place, kind_of
from opsdk.apimachinery.object import gvk_of
from opsdk.errors import UsageError


def test_a_class_without_a_kind_has_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has file and line of the class; it has none when the file no longer parses."""
    source = tmp_path / "kindless.py"
    source.write_text("\n\nclass Plain: ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "kindless", raising=False)
    plain = importlib.import_module("kindless").Plain
    assert class_place(plain) == f"{source}:3"
    with pytest.raises(UsageError) as caught:
        kind_of(plain)
    assert str(caught.value).startswith(f"Plain has no kind ({source}:3): pass a class with `gvk` set")
    source.write_text("\n\nclass Plain(: ...\n# longer than before\n")
    with pytest.raises(UsageError, match=r"^Plain has no kind: pass"):
        kind_of(plain)


@pytest.mark.parametrize("value", [int, type("Made", (), {"__module__": "nowhere"}), 3, None])
def test_what_has_no_source_has_no_place(value: object) -> None:
    """Built-in classes, classes without a module, and other values."""
    assert class_place(value) == ""


def test_a_class_in_place_of_an_object_is_named() -> None:
    """`client.create(ConfigMap)` says what to pass."""
    with pytest.raises(UsageError, match=r"ConfigMap is a class: pass an object, ConfigMap\(\.\.\.\)"):
        gvk_of(ConfigMap)  # type: ignore[arg-type]
