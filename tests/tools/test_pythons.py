"""make test-pythons: which interpreters it finds, what it reads from reports, and its table."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tools.pythons.__main__ import PYTHONS
from tools.pythons.debian import ENTER, NAMESPACE, RELEASES, debian_interpreter, refusal, variables_of_a_root
from tools.pythons.interpreters import (
    MissingPythonError,
    candidates,
    exact_version,
    local_interpreter,
    running_interpreter,
    series,
)
from tools.pythons.results import Result, counted, is_green, table

ROOT = Path(__file__).resolve().parents[2]
REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="2" tests="6">
<testcase classname="tests.a" name="test_one" time="0.1" />
<testcase classname="tests.a" name="test_two"><failure message="assert 1 == 2&#10;more">text</failure></testcase>
<testcase classname="tests.a" name="test_two"><error message="the teardown failed too">text</error></testcase>
<testcase classname="tests.a" name="test_three"><skipped type="pytest.skip" message="no etcd">text</skipped></testcase>
<testcase classname="tests.a" name="test_four"><skipped type="pytest.skip" message="no etcd">text</skipped></testcase>
<testcase classname="tests.a" name="test_five" time="0.1"><system-out>printed</system-out></testcase>
</testsuite></testsuites>
"""


def make_python(path: Path, prints: str) -> None:
    """A program that prints the version of an interpreter, or fails if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{prints}\n")
    path.chmod(0o755)


def test_a_series_is_the_minor_version_and_the_kind_of_threads() -> None:
    """The patch release does not count; without a global interpreter lock it is another Python."""
    assert [series(version) for version in ("3.13", "3.13.5", "3.14.0rc2", "3.14.1t", "3.14t")] == [
        "3.13", "3.13", "3.14", "3.14t", "3.14t",
    ]  # fmt: skip
    with pytest.raises(MissingPythonError, match=r"four names no Python: write 3\.13"):
        series("four")


def test_interpreters_come_from_path_pyenv_and_uv_in_that_order(tmp_path: Path) -> None:
    """Of a folder the newest version is first, by number; other versions and other kinds of threads are left out."""
    for name in ("path/python3.13", "pyenv/versions/3.13.2/bin/python", "pyenv/versions/3.13.10/bin/python",
                 "pyenv/versions/3.13.10t/bin/python", "pyenv/versions/3.1.3/bin/python",
                 "uv/cpython-3.13.1-linux-x86_64-gnu/bin/python",
                 "uv/cpython-3.13.1+freethreaded-linux-x86_64-gnu/bin/python"):  # fmt: skip
        make_python(tmp_path / name, "echo")
    variables = {
        "PATH": str(tmp_path / "path"),
        "PYENV_ROOT": str(tmp_path / "pyenv"),
        "UV_PYTHON_INSTALL_DIR": str(tmp_path / "uv"),
    }
    places = [(origin, str(path.relative_to(tmp_path))) for origin, path in candidates("3.13", variables, tmp_path)]
    assert places == [
        ("PATH", "path/python3.13"),
        ("pyenv", "pyenv/versions/3.13.10/bin/python"),
        ("pyenv", "pyenv/versions/3.13.2/bin/python"),
        ("uv", "uv/cpython-3.13.1-linux-x86_64-gnu/bin/python"),
    ]
    threads = [path.parents[1].name for _, path in candidates("3.13t", variables, tmp_path)]
    assert threads == ["3.13.10t", "cpython-3.13.1+freethreaded-linux-x86_64-gnu"]


def test_an_interpreter_that_cannot_run_is_passed_over(tmp_path: Path) -> None:
    """A shim of pyenv without its version fails; the next place is tried, and each reason is kept."""
    make_python(tmp_path / "path/python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    variables = {"PATH": str(tmp_path / "path")}
    with pytest.raises(MissingPythonError, match=r"path/python3\.13: pyenv: python3\.13: command not found"):
        local_interpreter("3.13", tmp_path / "cache", variables, tmp_path)
    make_python(tmp_path / ".pyenv/versions/3.13.2/bin/python", "echo 3.13.2")
    interpreter = local_interpreter("3.13", tmp_path / "cache", variables, tmp_path)
    assert (interpreter.version, interpreter.origin) == ("3.13.2", "pyenv")
    assert interpreter.stamp.is_relative_to(tmp_path / "cache/3.13")
    with pytest.raises(MissingPythonError, match=r"no python3\.99 in PATH"):
        local_interpreter("3.99", tmp_path, variables, tmp_path)


def test_the_running_interpreter_needs_no_new_environment() -> None:
    """The first Python has the environment of make test."""
    interpreter = running_interpreter()
    assert interpreter.version.rstrip("t") == ".".join(map(str, sys.version_info[:3]))
    assert (interpreter.environment, interpreter.python) == (Path(sys.prefix), None)
    assert exact_version(interpreter.environment / "bin/python") == interpreter.version


def test_a_report_counts_each_test_once() -> None:
    """A test that fails twice is one failure; a skip has its reason; output is no failure."""
    passed, failures, skipped = counted(REPORT)
    assert (passed, skipped) == (2, {"no etcd": 2})
    assert failures == {"tests.a::test_two": "assert 1 == 2\nmore"}


def test_the_table_has_a_row_for_each_python_and_reasons_below_it() -> None:
    """A reason of several Pythons is one line; a missing Python says why; a failure has its first line."""
    passed, failures, skipped = counted(REPORT)
    results = [
        Result(python="3.11", version="3.11.2", origin=".venv", passed=14_000, skipped={"no etcd": 1}, seconds=200.4),
        Result(
            python="3.13", version="3.13.5", origin="Debian trixie", passed=passed, failures=failures,
            skipped=skipped, seconds=9,
        ),
        Result(python="3.12", version="3.12.1", origin="pyenv", passed=1, instead="no Debian release has 3.12"),
        Result(python="3.14", missing="no chroot"),
    ]  # fmt: skip
    assert list(table(results)) == [
        "Python  version  from           passed  failed  skipped  seconds",
        "3.11    3.11.2   .venv          14,000       0        1      200",
        "3.13    3.13.5   Debian trixie       2       1        2        9",
        "3.12    3.12.1   pyenv               1       0        0        0",
        "3.14    -        -                   -       -        -        -",
        "3.12 comes from pyenv: no Debian release has 3.12",
        "3.14 is missing: no chroot",
        "skipped on 3.11: 1, 3.13: 2: no etcd",
        "failed on 3.13: tests.a::test_two: assert 1 == 2",
    ]


def test_only_a_failed_test_makes_the_run_fail() -> None:
    """A Python that this machine does not have is a row of the table."""
    missing, failed = Result(python="3.14", missing="no chroot"), Result(python="3.13", failures={"a": "b"})
    assert is_green([missing])
    assert not is_green([missing, failed])


def test_a_chroot_gets_the_way_to_the_package_index_and_nothing_of_this_machine() -> None:
    """Proxies and indices are for every Python; folders, locales and Python's own settings are this machine's."""
    variables = {
        "https_proxy": "http://proxy", "PIP_INDEX_URL": "https://index", "SSL_CERT_FILE": "/etc/ssl/certs/ca.crt",
        "PATH": "/root/.pyenv/bin", "PYTHONPATH": "/clone", "LC_ALL": "de_DE", "VIRTUAL_ENV": "/clone/.venv",
        "PIP_FIND_LINKS": "/wheels", "KUBECONFIG": "/root/config", "TMPDIR": "/scratch",
    }  # fmt: skip
    assert variables_of_a_root(variables) == {
        "https_proxy": "http://proxy", "PIP_INDEX_URL": "https://index", "SSL_CERT_FILE": "/etc/ssl/certs/ca.crt",
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
    }  # fmt: skip


def test_a_machine_without_debootstrap_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is an error with a remedy, before anything is made."""
    monkeypatch.setattr("tools.pythons.debian.DEBIAN", tmp_path / "debian_version")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert refusal("trixie") == "chroots need root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert refusal("trixie") == "chroots need Debian"
    (tmp_path / "debian_version").write_text("12.5\n")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(MissingPythonError, match=r"no chroot of trixie: apt-get install debootstrap"):
        debian_interpreter("3.13", tmp_path / "cache", ROOT, {})
    assert not (tmp_path / "cache").exists()


def test_mounts_end_with_the_command(tmp_path: Path) -> None:
    """A chroot's commands see the clone at its own path, and nothing stays mounted after them."""
    if os.geteuid() != 0 or subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root that may mount")
    root, clone = tmp_path / "root", tmp_path / "clone"
    for folder in ("proc", "dev", str(clone)[1:]):
        (root / folder).mkdir(parents=True)
    clone.mkdir()
    (clone / "file").write_text("of the clone")
    script = ENTER.replace('exec chroot "$root" env --chdir="$clone"', 'cd "$root$clone"; exec')
    done = subprocess.run(
        [*NAMESPACE, "sh", "-ec", script, "enter", root, clone, "sh", "-c", f"cat file; grep -c {root} /proc/mounts"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    text, _, mounts = done.stdout.strip().rpartition("clone")
    assert (text, int(mounts) >= 3) == ("of the ", True), done.stdout + done.stderr
    assert str(root) not in Path("/proc/mounts").read_text()
    assert list((root / str(clone)[1:]).iterdir()) == list((root / "proc").iterdir()) == []


def test_every_place_names_the_same_pythons() -> None:
    """The classifiers, the workflow and .ci/run have the Pythons of make test-pythons; the first runs everything."""
    first, *others = PYTHONS.split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    assert [name.rpartition(" ")[2] for name in project["classifiers"] if name.startswith(prefix)] == [first, *others]
    assert f"others=({' '.join(others)})" in (ROOT / ".ci/run").read_text()
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    assert jobs["ci"]["steps"][1]["with"] == {"python-version": first}
    assert jobs["pythons"]["strategy"]["matrix"] == {"python": others}
    assert set(RELEASES) <= {first, *others}
