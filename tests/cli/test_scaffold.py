"""New projects: their files work as they are written."""

from __future__ import annotations

import ast
import asyncio
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from pydoc import locate

import pytest
from command_lines import unknown_words, words_of
from hypothesis import given
from hypothesis import strategies as st

import envtest
from opsdk import Context, ObjectMeta
from opsdk.builder.reconciler_options import ReconcilerOptions
from opsdk.cli.__main__ import main
from opsdk.cli.project import find_project
from opsdk.cli.scaffold.files import add_module, check_group_version, check_new_kind, module_of, package_of
from opsdk.cli.scaffold.record import NAME
from opsdk.cli.scaffold.spec_fields import spec_arguments
from opsdk.errors import UsageError
from opsdk.testing.running import running

API = ["create", "api", "--group", "demo.example.com", "--version", "v1", "--kind", "Widget"]

PROGRAMS = {"pip", "pytest", "mypy", "ruff", "opsdk", "python"}
"""Programs of the commands in AGENTS.md."""


def new_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with one kind, as the current folder."""
    monkeypatch.chdir(folder)
    assert main(["init", "demo"]) == 0
    monkeypatch.chdir(folder / "demo")
    assert main(API) == 0
    return folder / "demo"


def test_a_project_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new project has at most 9 files besides .gitignore and its record; without the rules for agents, 150 lines."""
    project = new_project(tmp_path, monkeypatch)
    files = [path for path in project.rglob("*") if path.is_file() and path.name not in (".gitignore", NAME)]
    assert len(files) <= 9
    assert sum(len(path.read_text().splitlines()) for path in files if path.name != "AGENTS.md") <= 150


def test_the_rules_for_agents_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of AGENTS.md exist, and so do the files, keywords and names of opsdk that it mentions."""
    project = new_project(tmp_path, monkeypatch)
    text = (project / "AGENTS.md").read_text()
    spans = re.findall(r"`([^`]+)`", text)
    lines = [words_of(line) for span in spans for line in span.split(" && ") if line.split()[0] in PROGRAMS]
    assert {words[0] for words in lines} == PROGRAMS
    assert [words for words in lines if words[0] == "opsdk" and unknown_words(words)] == []
    assert [words for words in lines if words[:3] == ["python", "-m", "pydoc"] and locate(words[3]) is None] == []
    tools = tomllib.loads((project / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    assert PROGRAMS - {"pip", "python", "opsdk"} <= set(tools)
    paths = [span for span in spans if re.fullmatch(r"[a-z_.]+/[a-z_./]*", span)]
    assert paths == ["samples/", "config/", "demo/operator.py", "tests/", "config/"]
    assert [path for path in paths if not (project / path).exists() and path != "config/"] == []
    assert {name for name in re.findall(r"`ctx\.(\w+)", text) if not hasattr(Context, name)} == set()
    assert set(re.findall(r"`(\w+)=`", text)) <= ReconcilerOptions.__annotations__.keys()
    assert locate("opsdk.testing.rules.assert_rules") is not None
    assert locate("opsdk.controller.external.ExternalResource") is not None


@pytest.mark.slow
def test_a_project_passes_its_own_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests, mypy strict and ruff; with three kinds: one is cluster-scoped, one has a long name."""
    project = new_project(tmp_path, monkeypatch)
    assert main(["create", "api", "--group", "demo.example.com", "--kind", "HTTPGadget", "--cluster-scoped"]) == 0
    long_name = "ClusterCertificateRotationPolicyTemplate"
    assert main(["create", "api", "--group", f"{'g' * 40}.example.com", "--kind", long_name]) == 0
    for kind in ("Widget", "HTTPGadget", long_name):
        assert main(["create", "webhook", "--kind", kind]) == 0
        assert main(["create", "policy", "--kind", kind]) == 0
        assert main(["create", "version", "--kind", kind, "--version", "v1beta1"]) == 0
    environment = {**os.environ, "PYTHONPATH": str(project)}
    assert main(["generate", "all"]) == 0
    assert main(["generate", "all", "--check"]) == 0
    for words in (["pytest", "-q"], ["mypy"], ["ruff", "check", "."], ["ruff", "format", "--check", "."]):
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"


SPEC = """class WidgetSpec(Model, kw_only=True):
    limit: ClassVar[int] = 3
    host: Annotated[str, Meta(min_length=1)]
    mode: "Literal['on', 'off']"
    size: int | None = None
    tags: list[str]
    other: Other
"""


@pytest.mark.slow
def test_what_is_added_fits_the_fields_of_the_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The author has replaced the field of the scaffold: the tests of a version, a webhook and a policy pass."""
    project = new_project(tmp_path, monkeypatch)
    module = project / "demo" / "widget.py"
    source = module.read_text().replace('text: str = "hello"', "count: int = 3\n    host: str")
    module.write_text(source.replace("widget.spec.text", "widget.spec.host"))
    (project / "tests" / "test_widget.py").unlink()
    for words in (["webhook"], ["policy"], ["version", "--version", "v2"]):
        assert main(["create", words[0], "--kind", "Widget", *words[1:]]) == 0
    environment = {**os.environ, "PYTHONPATH": str(project)}
    for words in (["pytest", "-q"], ["mypy"], ["ruff", "check", "."], ["ruff", "format", "--check", "."]):
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"


def test_arguments_of_a_spec() -> None:
    """Values follow from the types; a class of the author is for the author to fill in."""
    required = "host=\"changed\", mode='on', tags=[], other=..."
    assert spec_arguments(SPEC, "Widget") == required
    assert spec_arguments(SPEC, "Widget", changes=True) == "host=\"changed\", mode='on', size=1, tags=[], other=..."
    assert spec_arguments("from other import WidgetSpec\n", "Widget", changes=True) == ""


def test_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second call of the same command ends with an error, and changes no file."""
    project = new_project(tmp_path, monkeypatch)
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert main(API) == 1
    assert "widget.py already exists, and nothing was written: it declares demo.example.com/v1 Widget" in (
        capsys.readouterr().err
    )
    assert main(["create", "webhook", "--kind", "Gadget"]) == 1
    assert "run opsdk create api --kind Gadget first" in capsys.readouterr().err
    assert main(["init", "."]) == 1
    assert "pyproject.toml already exists" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("api", "words"),
    [
        (
            ["demo.example.com", "v2"],
            ["opsdk create version --kind Widget --version v2", "with_converter", "Webhooks"],
        ),
        (["other.example.com", "v1"], ["Widget of the group demo.example.com", "in another module"]),
    ],
)
def test_a_second_version_of_a_kind_gets_advice(
    api: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error says which class to write, and which page describes it."""
    new_project(tmp_path, monkeypatch)
    assert main(["create", "api", "--group", api[0], "--version", api[1], "--kind", "Widget"]) == 1
    error = capsys.readouterr().err
    assert [word for word in words if word not in error] == []


def test_a_version_is_added_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind and its version must exist as described; a second converter goes into the file of the first."""
    new_project(tmp_path, monkeypatch)
    version = ["create", "version", "--kind"]
    for words, message in [
        ([*version, "Gadget", "--version", "v1beta1"], "run opsdk create api --kind Gadget first"),
        ([*version, "Widget", "--version", "v1"], "Widget has the version v1 already"),
        ([*version, "Widget", "--version", "beta"], "'beta' is not a valid version"),
    ]:
        assert main(words) == 1
        assert message in capsys.readouterr().err
    assert main([*version, "Widget", "--version", "v1beta1"]) == 0
    assert "widget_v1beta1.add_to(operator)" in Path("demo/operator.py").read_text()
    capsys.readouterr()
    assert main([*version, "Widget", "--version", "v2"]) == 1
    assert "widget_v1beta1.py has a converter for Widget already" in capsys.readouterr().err


async def test_a_version_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that is written in the new version is read in the first one."""
    new_project(tmp_path, monkeypatch)
    assert main(["create", "version", "--kind", "Widget", "--version", "v1beta1"]) == 0
    monkeypatch.syspath_prepend(str(tmp_path / "demo"))
    try:
        operator = importlib.import_module("demo.operator").make_operator()
        spoke = importlib.import_module("demo.widget_v1beta1")
        hub = importlib.import_module("demo.widget")
        async with envtest.Environment() as env, running(operator, env):
            client, meta = operator.cluster.uncached, ObjectMeta(name="a", namespace="default")
            await client.create(spoke.WidgetV1Beta1(metadata=meta, spec=spoke.WidgetV1Beta1Spec(text="old")))
            await asyncio.sleep(5)
            assert (await client.get(hub.Widget, "default/a")).spec.text == "old"
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "demo"]:
            del sys.modules[name]


def test_a_project_links_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated files have no URLs: the package index and a site may not have the page."""
    project = new_project(tmp_path, monkeypatch)
    assert main(["create", "webhook", "--kind", "Widget"]) == 0
    assert main(["create", "policy", "--kind", "Widget"]) == 0
    assert [path for path in project.rglob("*") if path.is_file() and "://" in path.read_text()] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--group", "demo", "--kind", "Widget"], "'demo' is not a valid API group: write a domain"),
        (["--group", "Demo.example.com", "--kind", "Widget"], "is not a valid API group"),
        (["--group", "a.b", "--version", "1", "--kind", "Widget"], "'1' is not a valid version"),
        (["--group", "a.b", "--kind", "widget"], "'widget' is not a valid kind: write it in CamelCase"),
    ],
)
def test_names_that_a_server_refuses(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says what to write."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "demo"]) == 0
    monkeypatch.chdir(tmp_path / "demo")
    assert main(["create", "api", *words]) == 1
    assert message in capsys.readouterr().err


def test_outside_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the command that starts one."""
    monkeypatch.chdir(tmp_path)
    assert main(API) == 1
    assert "no project found in this folder or above: run opsdk init" in capsys.readouterr().err
    assert main(["run"]) == 1
    assert "name the operator: MODULE:NAME or FILE.py" in capsys.readouterr().err


def test_an_operator_file_of_another_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says what to add by hand, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "demo"]) == 0
    monkeypatch.chdir(tmp_path / "demo")
    Path("demo/operator.py").write_text("from opsdk import Operator\n\noperator = Operator('demo')\n")
    assert main(API) == 1
    assert "add `from demo import widget` and `widget.add_to(operator)` to it" in capsys.readouterr().err
    assert not Path("demo/widget.py").exists()


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "zeta"]), unique=True, min_size=1))
def test_modules_are_added_in_any_order(names: list[str]) -> None:
    """Each is imported and called once, and the source stays Python."""
    source = "from opsdk import Operator\n\n\ndef make_operator():\n    operator = Operator('x')\n    return operator\n"
    for name in names:
        source = add_module(source, "demo", name)
    imported = [node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom) and node.module == "demo"]
    assert [alias.name for node in imported for alias in node.names] == sorted(names)
    assert [line.strip() for line in source.splitlines() if "add_to" in line] == [
        f"{n}.add_to(operator)" for n in names
    ]


@pytest.mark.parametrize("name", ["Demo", "de mo", "1", "-a", "a_b", "", "site", "json"])
def test_names_that_are_no_project(name: str) -> None:
    """A project's name is a DNS label, and its package an identifier that hides no module of Python."""
    with pytest.raises(UsageError, match="is not a valid project name"):
        package_of(name)
    assert package_of("my-operator") == "my_operator"


def test_names_of_kinds_and_groups() -> None:
    """Kinds become modules in snake case."""
    assert [module_of(kind) for kind in ("Widget", "HTTPRoute", "DNSZone", "A1")] == [
        "widget", "http_route", "dns_zone", "a1",
    ]  # fmt: skip
    for version in ("v1", "v2beta1", "v1alpha3"):
        check_group_version("a.b", version)


def test_kinds_whose_names_the_modules_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind hides no name of the files that are written for it: imported classes are refused, other names get `_`."""
    project = new_project(tmp_path, monkeypatch)
    assert main(["create", "webhook", "--kind", "Widget"]) == 0
    assert main(["create", "version", "--kind", "Widget", "--version", "v2"]) == 0
    nodes = [node for path in project.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)} | {
        n.arg for n in nodes if isinstance(n, ast.arg)
    }
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    own = {name for name in names if "widget" in name.lower()} | {"CONVERTER", "conditions", "gvk", "text"}
    classes = {name for name in names - own if name[0].isupper()}
    for name in classes:
        with pytest.raises(UsageError, match=f"another class {name}: choose a longer kind"):
            check_new_kind(name)
    generated = {"annotations", "main", "make_operator"} | {name for name in names if name.startswith("test_")}
    kinds = {name.title().replace("_", "") for name in names - own - classes - generated} - classes
    assert {module_of(kind) for kind in kinds} & names == set()


@pytest.mark.parametrize("kind", ["Class", "Meta", "Patch"])
def test_a_kind_with_a_taken_name_works(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are Python, and the operator imports."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "taken"]) == 0
    monkeypatch.chdir(tmp_path / "taken")
    assert main([*API[:-1], kind]) == 0
    assert main(["create", "webhook", "--kind", kind]) == 0
    for path in Path().rglob("*.py"):
        compile(path.read_text(), path, "exec")
    assert f"from taken import {kind.lower()}_" in Path("taken/operator.py").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.opsdk\n", "pyproject.toml: "),
        ("[tool.opsdk]\nopperator = 'x'\n", "opperator = 'x': write strings for operator"),
    ],
)
def test_a_project_file_with_mistakes(text: str, message: str, tmp_path: Path) -> None:
    """The error names the file and the key."""
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError) as raised:
        find_project(tmp_path)
    assert message in str(raised.value)
