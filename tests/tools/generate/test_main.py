"""``python -m tools.generate``: what it writes, and what its check finds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from envtest.data.table import without_header
from tools.generate.__main__ import main
from tools.generate.errors import GenerateError
from tools.generate.facts import FOLDER, POLICY, parse_facts, read_facts, version_of_checkout
from tools.generate.openapi import read_openapi
from tools.generate.outputs import outputs, outputs_of_facts

REPOSITORY = Path(__file__).parents[3]
OPENAPI = REPOSITORY / FOLDER / "openapi"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of what the tool reads and writes."""
    for folder in (FOLDER, Path("envtest/data"), Path("opsdk/api"), Path("opsdk/children/data")):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(root: Path, *words: str, openapi: Path = OPENAPI) -> int:
    """The exit status of the tool."""
    return main(["--openapi", str(openapi), *words], root)


def test_the_committed_files_are_as_generated(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The committed generated files equal the generator's output."""
    assert run(root, "--check") == 0, capsys.readouterr().out


def test_generating_twice_gives_the_same_bytes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second run changes nothing, and each text says where it is from."""
    (root / "envtest/data/fields.txt").unlink()
    assert run(root) == 0
    assert "wrote envtest/data/fields.txt" in capsys.readouterr().out
    assert run(root) == 0
    assert "0 of them changed" in capsys.readouterr().out
    facts = parse_facts(read_facts(root))
    first, second = (outputs(read_openapi(OPENAPI), facts) for _ in range(2))
    assert first == second
    assert all("make generate" in text[:500] and "do not edit" in text[:500] for text in first.values())
    assert {path for path in first if path.endswith(".txt")} == {
        f"envtest/data/{name}.txt" for name in ("columns", "fields", "messages", "rbac", "resources", "schemas")
    } | {"opsdk/children/data/types.txt"}


@pytest.mark.parametrize("path", ["envtest/data/messages.txt", "opsdk/api/core/v1.py", "opsdk/api/apps/__init__.py"])
def test_one_changed_byte_is_found(root: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The check fails, names the file, shows the line, and writes nothing."""
    text = (root / path).read_text()
    (root / path).write_text(text[:-2] + "~" + text[-1:])
    changed = (root / path).read_text()
    assert run(root, "--check") == 1
    output = capsys.readouterr().out
    assert f"{path} is not what the generator makes" in output
    assert "run `make generate`" in output
    assert "~" in output
    assert (root / path).read_text() == changed


def test_files_that_nothing_makes_any_more(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A generated module or table that no generator makes is found; a module written by hand is not."""
    (root / "opsdk/api/core/v0.py").write_text((root / "opsdk/api/core/v1.py").read_text())
    (root / "opsdk/api/core/by_hand.py").write_text('"""By hand."""\n')
    assert run(root, "--check") == 1
    output = capsys.readouterr().out
    assert "opsdk/api/core/v0.py is not generated any more" in output
    assert "by_hand" not in output


def test_without_the_documents(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tool and its check say what is missing and how to give it."""
    missing = root / "nowhere"
    for words in ((), ("--check",)):
        assert run(root, *words, openapi=missing) == 1
        error = capsys.readouterr().err
        assert "there is no folder" in error
        assert "make generate OPENAPI=" in error


def test_folders_that_are_not_whole(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kind of document that is missing, or there twice, is named; so is one that is not JSON."""
    folder = root / "openapi"
    folder.mkdir()
    (folder / "schemas-v1.36.json").write_text("{")
    assert run(root, openapi=folder) == 1
    assert "no discovery-v*.json" in capsys.readouterr().err
    for name in ("discovery-v1.36", "protobuf-fields-v1.36"):
        (folder / f"{name}.json").write_text("{}")
    assert run(root, openapi=folder) == 1
    assert "schemas-v1.36.json is not JSON" in capsys.readouterr().err
    (folder / "schemas-v1.37.json").write_text("{}")
    assert run(root, openapi=folder) == 1
    assert "more than one schemas-v*.json" in capsys.readouterr().err


def test_facts_of_two_versions(root: Path) -> None:
    """Facts of different minor versions do not make one table."""
    texts = dict(read_facts(root))
    texts[POLICY] = texts[POLICY].replace("Kubernetes v1.36", "Kubernetes v1.35")
    with pytest.raises(GenerateError, match="different versions"):
        parse_facts(texts)


def test_checkouts_that_do_not_fit(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A checkout has to be whole, and of a version that git or the caller tells."""
    checkout = root / "kubernetes"
    checkout.mkdir()
    for words, reason in (
        ((), "git does not tell the version"),
        (("--kubernetes-version", "new"), "KUBERNETES_VERSION=new is not a version: write it like v1.37.0"),
        (("--kubernetes-version", "1.99"), "is not a whole checkout"),
        (("--kubernetes-version", "v1.36.0"), "is not a whole checkout"),
    ):
        assert run(root, "--kubernetes", str(checkout), *words) == 1
        assert reason in capsys.readouterr().err
    with pytest.raises(GenerateError, match="KUBERNETES_VERSION"):
        version_of_checkout(checkout)


def test_policy_of_a_checkout_makes_the_same_table(root: Path, tmp_path: Path) -> None:
    """The facts as the YAML lists that upstream has give the committed table again."""
    from tools.generate.extract.bootstrap_policy import read_policy
    from tools.generate.rbac import render_rbac

    folder = tmp_path / "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
    folder.mkdir(parents=True)
    items = [json.loads(line) for line in without_header(read_facts(root)[POLICY]).splitlines()]
    for prefix, kind in (("cluster", "ClusterRole"), ("controller", "ClusterRole"), ("namespace", "Role")):
        for suffix, name in (("roles", kind), ("role-bindings", f"{kind}Binding")):
            own = [
                item
                for item in items
                if (
                    item["kind"] == name
                    and item["metadata"]["name"].startswith("system:controller:") == (prefix == "controller")
                )
                or (prefix == "namespace" and item["kind"] == name)
            ]
            (folder / f"{prefix}-{suffix}.yaml").write_text(yaml.safe_dump({"kind": "List", "items": own}))
    [text] = outputs_of_facts(parse_facts(read_facts(root))).values()
    assert render_rbac(read_policy(tmp_path)) == without_header(text)
