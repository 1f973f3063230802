"""Where ``opsdk generate models --crd`` reads definitions."""

from __future__ import annotations

import io
import tarfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from opsdk.apimachinery.yaml_text import to_yaml
from opsdk.cli.__main__ import main
from opsdk.cli.generate.sources import read_definitions, remote_of
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject


def definition(kind: str, field: str = "size") -> JsonObject:
    """Return a definition with one field."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {field: {"type": "string"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.x.example.com"},
        "spec": {
            "group": "x.example.com",
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def names_in(source: str) -> list[str]:
    """The kinds of a source."""
    return [each["spec"]["names"]["kind"] for each in read_definitions(source)]


def archive(files: Mapping[str, str]) -> bytes:
    """Return a release as GitHub packs it: below one folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, text in files.items():
            header = tarfile.TarInfo(f"project-1.0/{path}")
            header.size = len(text.encode())
            tar.addfile(header, io.BytesIO(text.encode()))
    return packed.getvalue()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What the internet has, by URL."""
    pages: dict[str, bytes] = {}

    def urlopen(url: str, *, timeout: float) -> io.BytesIO:
        if url not in pages:
            raise urllib.error.URLError("no such host")
        return io.BytesIO(pages[url])

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return pages


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files below it too; templates are left out with a line, equal definitions count once."""
    (tmp_path / "more").mkdir()
    (tmp_path / "a.yaml").write_text(to_yaml([definition("Site"), {"apiVersion": "v1", "kind": "Namespace"}]))
    (tmp_path / "more/b.yml").write_text(to_yaml([definition("Page"), definition("Site")]))
    (tmp_path / "more/c.yaml").write_text("{{- if .Values.crds }}\nkind: x\n{{- end }}\n")
    (tmp_path / "more/d.txt").write_text("{{")
    assert names_in(str(tmp_path)) == ["Site", "Page"]
    assert "more/c.yaml is left out: " in capsys.readouterr().err
    assert main(["generate", "models", "--crd", str(tmp_path), "--folder", str(tmp_path / "apis")]) == 0
    assert "class Page(" in (tmp_path / "apis/x_example_com/v1.py").read_text()


def test_two_definitions_of_one_name(tmp_path: Path) -> None:
    """The message names both files."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(to_yaml([definition("Site", field=name)]))
    with pytest.raises(UsageError, match=r"a.yaml and .*b.yaml have different definitions of sites"):
        read_definitions(str(tmp_path))


def test_a_url(web: dict[str, bytes]) -> None:
    """Of a file."""
    url = "https://example.com/crds.yaml"
    web[url] = to_yaml([definition("Site")]).encode()
    assert names_in(url) == ["Site"]
    with pytest.raises(UsageError, match=r"absent.yaml cannot be downloaded: .*no such host.*: download it, and pass"):
        read_definitions("https://example.com/absent.yaml")


def test_a_release_of_a_project(web: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of its archive; other folders do not count."""
    site, page = to_yaml([definition("Site")]), to_yaml([definition("Page")])
    files = {
        "deploy/crds/a.yaml": site,
        "deploy/crds/b.yaml": "{{ x }}: {",
        "deploy/crds2/c.yaml": page,
        "README.md": "x",
    }
    web["https://codeload.github.com/acme/sites/tar.gz/refs/tags/v1.0"] = archive(files)
    assert names_in("github:acme/sites@v1.0/deploy/crds") == ["Site"]
    assert "deploy/crds/b.yaml is left out" in capsys.readouterr().err
    assert names_in("github:acme/sites@v1.0/deploy/crds2/c.yaml") == ["Page"]
    assert names_in("github:acme/sites@v1.0") == ["Site", "Page"]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (b"\x1f\x8bnot gzip", "is not an archive that can be read"),
        (archive({"a.yaml": "kind: Other"}), "has no CustomResourceDefinition that a server takes"),
    ],
)
def test_a_damaged_or_empty_archive(page: bytes, message: str, web: dict[str, bytes]) -> None:
    """The message says which."""
    web["https://example.com/a.tgz"] = page
    with pytest.raises(UsageError, match=message):
        read_definitions("https://example.com/a.tgz")


@pytest.mark.parametrize("source", ["github:acme", "github:acme/sites", "github:acme/sites@", "github:/x@v1"])
def test_an_incomplete_release(source: str) -> None:
    """The message has the form."""
    with pytest.raises(UsageError, match=r"github:OWNER/NAME@TAG or github:OWNER/NAME@TAG/FOLDER"):
        remote_of(source)
