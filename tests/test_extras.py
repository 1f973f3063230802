"""What a missing extra says."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from opsdk.errors import ConfigError
from opsdk.extras import EXTRA_MODULES, RequiredExtra


def test_every_library_of_an_extra_is_known() -> None:
    """Each requirement of the extras in pyproject.toml installs one of the modules in the table."""
    path = Path(__file__).parents[1] / "pyproject.toml"
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
