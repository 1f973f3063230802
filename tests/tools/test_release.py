"""A release that can be repeated: its rules, the changelog, and the workflows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from opsdk.base.version import VERSION
from tools.release.rules import (
    Clone,
    ReleaseError,
    checksums,
    declared_version,
    differences,
    named_sbom,
    newest_version,
    program,
    refusals,
    runtime_extras,
)

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
CLEAN = Clone(
    changes=(),
    head="a1",
    version="0.2.0",
    changelog="## 0.2.0 - 2027-01-02\n\n- One.\n\n## 0.1.0 - 2026-11-24\n",
    fragments=(),
    tags={"v0.1.0": "a0"},
)


def test_a_clean_clone_can_be_released_before_and_after_its_tag() -> None:
    """A tag of the version at the same commit repeats a release; it is also what starts the workflow."""
    assert list(refusals(CLEAN)) == []
    tagged = replace(CLEAN, tags={**CLEAN.tags, "v0.2.0": "a1"}, expected_tag="v0.2.0")
    assert list(refusals(tagged)) == []


@pytest.mark.parametrize(
    ("clone", "reason"),
    [
        (replace(CLEAN, changes=(" M README.md",)), "the tree has changes, first 'M README.md'"),
        (replace(CLEAN, version="0.3.0"), "the newest version of CHANGELOG.md is 0.2.0"),
        (replace(CLEAN, changelog="# Changelog\n"), "the newest version of CHANGELOG.md is missing"),
        (
            replace(CLEAN, fragments=("docs/changes/norman/new.added.md",)),
            "docs/changes has 1 unreleased changes, first",
        ),
        (replace(CLEAN, tags={"v0.2.0": "b2"}), "the tag v0.2.0 is at another commit"),
        (replace(CLEAN, expected_tag="v0.3.0"), "started for the tag v0.3.0"),
    ],
    ids=["dirty", "version", "no version", "unreleased", "tagged", "other tag"],
)
def test_each_rule_refuses_alone(clone: Clone, reason: str) -> None:
    """A clone that breaks one rule gets the reason of that rule, and no other."""
    (refusal,) = refusals(clone)
    assert reason in refusal


def test_builds_are_equal_only_byte_by_byte() -> None:
    """A file of one build, another byte, and a longer file are differences."""
    build = {"a.whl": b"123", "b.tar.gz": b"456"}
    assert differences(build, dict(build)) == []
    assert differences(build, {"a.whl": b"1x3"}) == ["b.tar.gz is in one build only", "a.whl differs at byte 1"]
    assert differences({"a": b"12"}, {"a": b"123"}) == ["a differs at byte 2"]


def test_checksums_have_the_form_of_sha256sum() -> None:
    """The lines are sorted by name; the digest of no bytes is known."""
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert checksums({"b": b"", "a": b""}) == f"{empty}  a\n{empty}  b\n"


def test_the_sbom_names_the_version() -> None:
    """The version is in a Python file, where the maker of the SBOM does not look."""
    document = json.loads(named_sbom('{"metadata": {"component": {"name": "opsdk"}}, "components": []}', "0.2.0"))
    assert document == {"metadata": {"component": {"name": "opsdk", "version": "0.2.0"}}, "components": []}


def test_the_program_is_the_block_of_the_readme() -> None:
    """The release runs the text that readers see; a lost block ends it."""
    readme = (ROOT / "README.md").read_text()
    assert program(readme, "greeter.py") == (ROOT / "samples/greeter/greeter.py").read_text()
    with pytest.raises(ReleaseError, match=r"no block with the title other\.py"):
        program(readme, "other.py")


def test_the_extras_of_a_release_are_those_of_programs() -> None:
    """Every extra is tried, except the two for work on opsdk."""
    extras = runtime_extras((ROOT / "pyproject.toml").read_text())
    assert {"cli", "envtest", "norman", "uvloop"} <= set(extras)
    assert {"dev", "docs"}.isdisjoint(extras)


def test_the_version_is_the_newest_of_the_changelog() -> None:
    """The declared version can be released: the changelog has it, with a date."""
    assert declared_version((ROOT / "opsdk/base/version.py").read_text()) == VERSION == newest_version(CHANGELOG)
    with pytest.raises(ReleaseError, match="has no line"):
        declared_version("")


def test_changelog_entries_are_short() -> None:
    """A version has at most 40 bullets, and a bullet at most 15 words."""
    for section in re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]:
        bullets = re.findall(r"^- (.*(?:\n  .*)*)", section, re.MULTILINE)
        assert len(bullets) <= 40, section.splitlines()[0]
        assert [bullet for bullet in bullets if len(bullet.split()) > 15] == []
    assert "## Unreleased" not in CHANGELOG, "an unreleased change is a file in docs/changes"


def test_fragments_are_one_short_sentence_in_a_known_place() -> None:
    """A fragment has at most 15 words; its folder is an area, and its name ends with a type of pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    places = {
        f"{section['path']}/*.{kind['directory']}.md" for section in settings["section"] for kind in settings["type"]
    }
    folder = ROOT / settings["directory"]
    for fragment in folder.rglob("*.md"):
        name = fragment.relative_to(folder)
        assert any(name.match(place) and len(name.parts) == 2 for place in places), name
        text = fragment.read_text()
        assert re.fullmatch(r"[A-Z`].*\.\n", text), name
        assert len(text.split()) <= 15, name


def test_a_version_of_the_changelog_is_made_of_fragments(tmp_path: Path) -> None:
    """Types are headings, areas are below them; the new version stands above the older ones, which do not change."""
    shutil.copytree(ROOT / "tools/release", tmp_path / "tools/release", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    fragments = {
        "norman/sums.fixed": "Show sums.",
        "command/sums.added": "Ask for sums.",
        "norman/b.fixed": "Be shown.",
    }
    for name, text in fragments.items():
        path = tmp_path / "docs/changes" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    command = ["towncrier", "build", "--keep", "--version", "9.8.7", "--date", "2030-01-02"]
    subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, check=True, capture_output=True)
    changelog = (tmp_path / "CHANGELOG.md").read_text()
    assert newest_version(changelog) == "9.8.7"
    above, new, older = re.split(r"(?=^## 9\.8\.7)|(?=^## \d+\.\d+\.\d+ - 2026)", changelog, flags=re.MULTILINE)[:3]
    assert new == (
        "## 9.8.7 - 2030-01-02\n\n### Added\n\n**The command**\n\n- Ask for sums.\n\n"
        "### Fixed\n\n**Norman**\n\n- Be shown.\n- Show sums.\n\n"
    )
    assert above + older == CHANGELOG[: len(above + older)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_trust_commits_and_grant_little(path: Path) -> None:
    """An action is pinned by its full commit hash, with its version beside it; a job has its own permissions."""
    text = path.read_text()
    used = re.findall(r"uses: (.*)", text)
    assert [line for line in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line)] == []
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    assert [name for name, job in workflow["jobs"].items() if not job.get("permissions")] == []


def test_only_trusted_publishing_uploads() -> None:
    """The job that publishes may do nothing but identify itself, and names neither user nor password."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    publish = workflow["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    (upload,) = [step for step in publish["steps"] if "pypi-publish" in step.get("uses", "")]
    assert upload["with"] == {"packages-dir": "dist", "attestations": True}
