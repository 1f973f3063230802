"""Ports that `opsdk dev` keeps between reloads."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from opsdk.cli.dev.reserved_port import reserved_port
from opsdk.errors import ConfigError


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, in which other users may create files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_port_is_reserved_before_it_is_bound() -> None:
    """Two commands that start at the same time get two ports, though nothing listens on the first yet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    with reserved_port(free) as first:
        with reserved_port(free) as second:
            assert first == free
            assert second not in (0, free)
        with socket.create_server(("127.0.0.1", free)), reserved_port(free) as third:
            assert third != free
    with reserved_port(free) as again:
        assert again == free


def test_a_port_that_a_server_has_is_not_reserved() -> None:
    """A server of another program keeps its port."""
    with socket.create_server(("127.0.0.1", 0)) as server, reserved_port(server.getsockname()[1]) as port:
        assert port not in (0, server.getsockname()[1])


def test_a_lock_is_no_link_of_another_user(temporary: Path) -> None:
    """A link or file that was there before under a known name is neither followed nor emptied."""
    victim = temporary / "victim"
    victim.write_text("precious")
    with reserved_port(1):
        folder = next(path for path in temporary.iterdir() if path.is_dir())
    assert folder.stat().st_mode & 0o777 == 0o700
    lock = next(folder.iterdir())
    assert lock.stat().st_mode & 0o777 == 0o600
    lock.unlink()
    lock.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"), reserved_port(1):
        raise AssertionError
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("found", ["link", "file", "writable"])
def test_a_folder_of_another_user_is_refused(temporary: Path, found: str) -> None:
    """Nothing is opened in a folder that another user could have made."""
    with reserved_port(1):
        folder = next(path for path in temporary.iterdir() if path.is_dir())
    if found == "writable":
        folder.chmod(0o777)
    else:
        folder.rename(temporary / "other")
        if found == "link":
            folder.symlink_to(temporary / "other")
        else:
            folder.write_text("")
    with pytest.raises(ConfigError, match="only you can write to"), reserved_port(2):
        raise AssertionError
    assert not (temporary / "other" / "dev-2.lock").exists()
