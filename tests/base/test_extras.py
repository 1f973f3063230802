"""What a missing extra says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from opsdk.base.extras import EXTRA_MODULES, RequiredExtra
from opsdk.errors import ConfigError


def test_every_library_of_an_extra_is_known() -> None:
    """Each requirement of the extras in pyproject.toml installs one of the modules in the table."""
    path = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(path.read_text())["project"]["optional-dependencies"]
    installs = packages_distributions()
    for extra, modules in EXTRA_MODULES.items():
        required = {re.split(r"[\[><=~]", requirement)[0] for requirement in extras[extra]}
        installing = {name.lower() for module in modules for name in installs.get(module, ())}
        assert required <= installing, extra


def test_a_missing_library_names_its_extra() -> None:
    """The message is one sentence; the error of the import is its cause."""
    missing = ModuleNotFoundError("no module", name="google.protobuf")
    with pytest.raises(ConfigError) as caught, RequiredExtra("etcd", "a test", alternative="wait"):
        raise missing
    assert str(caught.value) == "a test needs google.protobuf: pip install 'opsdk[etcd]', or wait"
    assert caught.value.__cause__ is missing


def unguarded_imports() -> list[str]:
    """Return each import of an extra's library outside ``with RequiredExtra``; opsdk.cli has one guard for all."""
    root = Path(__file__).parents[2]
    libraries = {module for modules in EXTRA_MODULES.values() for module in modules} - {"google", "pydantic"}
    places = []
    for path in sorted((root / "opsdk").rglob("*.py")):
        text = path.read_text()
        if path.is_relative_to(root / "opsdk/cli") or not any(name in text for name in libraries):
            continue
        guarded: set[ast.AST] = set()
        for node in ast.walk(tree := ast.parse(text)):
            is_guard = isinstance(node, ast.With) and "RequiredExtra(" in ast.unparse(node.items[0])
            if is_guard or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
                guarded |= set(ast.walk(node))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if node not in guarded and any(name.partition(".")[0] in libraries for name in names):
                places.append(f"{path.relative_to(root)}:{node.lineno}")
    return places


def test_each_import_of_a_library_of_an_extra_is_guarded() -> None:
    """An installation without the extra gets one sentence from `RequiredExtra`, never a bare ModuleNotFoundError."""
    assert unguarded_imports() == []


@pytest.mark.parametrize(
    ("library", "statement", "message"),
    [
        (
            "re2",
            "from opsdk.cel.regex import find; find('a', 'a')",
            "a regular expression of RE2 needs re2: {apiserver}",
        ),
        ("jinja2", "import opsdk.norman.web.page", "the web page of norman needs jinja2: {norman}"),
        ("cryptography", "import envtest.plane.certificates", "the local API server needs cryptography: {envtest}"),
        (
            "watchfiles",
            "import typer; from opsdk.cli.app import app; typer.main.get_command(app).load('dev')",
            "opsdk dev needs watchfiles: {cli}",
        ),
    ],
)
def test_a_hidden_library_is_one_sentence(library: str, statement: str, message: str) -> None:
    """The last line of the error says what to install."""
    code = f"import sys; sys.modules[{library!r}] = None; {statement}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    text = re.sub(r"\{(.*)\}", r"pip install 'opsdk[\1]'", message)
    assert run.stderr.splitlines()[-1] == f"opsdk.errors.ConfigError: {text}"


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError(name="re2"), ModuleNotFoundError(), ImportError("old", name="grpc"), KeyError("grpc")]
)
def test_other_errors_pass(error: Exception) -> None:
    """A module of another extra, a broken installation, an error of the block."""
    with pytest.raises(type(error)) as caught, RequiredExtra("etcd", "a test"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "import opsdk.webhook.certificates.issuing",
            "a self-issued certificate needs {}, or let cert_dir name certificate files",
        ),
        (
            "from opsdk.http.server.serving_certificate import self_signed_context as make; make('localhost')",
            "a self-signed certificate needs {}, or set metrics_cert_file and metrics_key_file",
        ),
    ],
)
def test_a_certificate_can_be_given_instead(statement: str, message: str) -> None:
    """The error names the options."""
    code = f"import sys; sys.modules['cryptography'] = None; {statement}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    text = message.format("cryptography: pip install 'opsdk[tls]'")
    assert run.stderr.splitlines()[-1] == f"opsdk.errors.ConfigError: {text}"
