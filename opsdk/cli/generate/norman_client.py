"""``opsdk generate norman-client``: typed classes for the objects of a Norman API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from opsdk.errors import UsageError
from opsdk.norman.client.client import NormanClient
from opsdk.norman.client.stubs import typed_client
from opsdk.rest.config import RestConfig


def norman_client(
    *,
    url: Annotated[str, typer.Option(metavar="URL", help="URL of an API version, such as https://library.example/v3")],
    token: Annotated[str, typer.Option(envvar="NORMAN_TOKEN", help="bearer token")] = "",
    ca_file: Annotated[Path | None, typer.Option(metavar="FILE", help="CA certificate of the server")] = None,
    class_name: Annotated[str, typer.Option(help="name of the client class")] = "TypedClient",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="file of the module; default: print it")] = None,
) -> None:
    """Generate a typed client of a Norman API, from the types that the token may use.

    opsdk generate norman-client --url https://library.example/v3 --out library.py
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.path.strip("/"):
        raise UsageError(f"{url!r} is not the URL of an API version: write https://HOST/VERSION")
    if not class_name.isidentifier():
        raise UsageError(f"{class_name!r} is not a class name")
    config = RestConfig(host=f"{parts.scheme}://{parts.netloc}", token=token, ca_file=str(ca_file or ""))
    text = asyncio.run(_typed_client(config, parts.path, class_name))
    if out is None:
        print(text, end="")
    else:
        out.write_text(text)


async def _typed_client(config: RestConfig, path: str, class_name: str) -> str:
    async with NormanClient(config, path) as client:
        return typed_client(client.schemas.values(), class_name=class_name, source=f"{config.host}{path}")
