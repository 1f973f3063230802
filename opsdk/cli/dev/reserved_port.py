"""Keeps a port for one `opsdk dev` of a user."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from opsdk.errors import ConfigError


@contextlib.contextmanager
def reserved_port(port: int) -> Iterator[int]:
    """Yield `port` of this machine, or a free port if it is taken by a server or reserved by another process.

    Each reload of the operator closes the port and binds it again, so a bind alone would not keep it: a second
    ``opsdk dev`` could bind it in between.

    Raises:
        ConfigError: another user owns the folder of the locks.
    """
    lock = _own_folder() / f"dev-{port}.lock"
    # Another user cannot write to the folder; a link that this user has made is not followed either.
    descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file, socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        probe.close()
        yield port


def _own_folder() -> Path:
    """Return a folder that only this user can write to. Its name is known, so another user may have taken it."""
    folder = Path(tempfile.gettempdir()) / f"opsdk-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise ConfigError(f"{folder} is not a folder that only you can write to: remove it, or set TMPDIR")
    return folder
