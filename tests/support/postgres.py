"""A PostgreSQL server of the distribution, in a folder, for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


class PostgresServer:
    """A running server. Only its socket in a folder is open, for everybody who can reach the folder."""

    def __init__(self, folder: Path, bin_folder: Path, user: str | None) -> None:
        self._folder = folder
        self._bin = bin_folder
        self._user = user

    @property
    def url(self) -> str:
        """The URL of a database, for SQLAlchemy."""
        return self._url("postgres")

    def _url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@/{database}?host={self._folder}"

    def new_database(self) -> str:
        """Create an empty database, and return its URL."""
        name = f"test{uuid.uuid4().hex}"
        self.query(f"CREATE DATABASE {name}")
        return self._url(name)

    def query(self, statement: str) -> None:
        """Run a statement as the superuser."""
        self.run("psql", ["-h", str(self._folder), "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-c", statement])

    def run(self, program: str, arguments: Sequence[str]) -> None:
        """Run a program of PostgreSQL as the user of the server."""
        command = [str(self._bin / program), *arguments]
        subprocess.run(command, check=True, user=self._user, capture_output=True, timeout=120, cwd=self._folder)

    def start(self) -> None:
        """Start the server, and return when it accepts connections."""
        options = f"-k {self._folder} -c listen_addresses='' -c fsync=off"
        log = str(self._folder / "log")
        self.run("pg_ctl", ["-w", "-D", str(self._folder / "data"), "-l", log, "-o", options, "start"])

    def stop(self) -> None:
        """Stop the server; open connections are lost."""
        self.run("pg_ctl", ["-w", "-D", str(self._folder / "data"), "-m", "immediate", "stop"])


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server; skip the test where none is installed."""
    on_path = shutil.which("initdb")
    folders = _FOLDERS or ([Path(on_path).parent] if on_path else [])
    if not folders:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    user = None
    if os.geteuid() == 0:
        # The server refuses to run as root.
        user = "postgres"
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        if user is not None:
            shutil.chown(folder, user)
            folder.chmod(0o755)
        server = PostgresServer(folder, folders[0], user)
        # The store must not depend on the collation of the database.
        server.run(
            "initdb", ["-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
        )
        server.start()
        try:
            yield server
        finally:
            server.stop()
