"""The Containerfile of an operator."""

from __future__ import annotations

import re
from string import Template

from opsdk.errors import UsageError

BASE_IMAGE = "docker.io/library/python:3.13-slim"
"""The default base image. A tag moves: ``opsdk package --base-image NAME@sha256:DIGEST`` pins the image."""
LOCK_FILE = "requirements.lock"

_TEMPLATE = Template("""# Build: podman build -t $image -f dist/Containerfile .
# A tag of the base image moves. To pin it: opsdk package --base-image NAME@sha256:DIGEST
FROM $base_image AS build
WORKDIR /src
COPY . .
# A folder wheels in the project may have what no package index has.
$install

FROM $base_image
COPY --from=build /venv /venv
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["/venv/bin/python", "-m", "$package"]
""")


_INSTALL = """\
# Versions are not locked: uv pip compile --generate-hashes pyproject.toml -o requirements.lock, then opsdk package.
RUN mkdir -p wheels && python -m venv /venv && /venv/bin/pip install --no-cache-dir --compile --find-links wheels ."""
_LOCKED_INSTALL = """\
RUN mkdir -p wheels && python -m venv /venv \\
 && /venv/bin/pip install --no-cache-dir --compile --find-links wheels --require-hashes -r requirements.lock \\
 && /venv/bin/pip install --no-cache-dir --compile --no-deps ."""

IGNORED_FILES = """\
# Not sent to the build: the kubeconfig of opsdk dev is an administrator's, and the image needs none of these.
.opsdk
**/kubeconfig
**/*.kubeconfig
**/.env
.git
.venv
dist
tests
**/__pycache__
**/*.egg-info
.mypy_cache
.pytest_cache
.ruff_cache
"""
"""The text of ``.dockerignore``, which docker, podman and buildah read in the folder of the build."""


def containerfile(image: str, package: str, *, base_image: str = BASE_IMAGE, locked: bool = False) -> str:
    """Return the Containerfile: two stages, no compiler and no root in the second.

    Args:
        image: the name of the image, for the comment.
        package: the Python package, which ``python -m`` runs.
        base_image: the image of both stages.
        locked: install what ``requirements.lock`` lists, and check the hashes.

    Raises:
        UsageError: `base_image` is not the name of an image.

    >>> containerfile("demo:1", "demo").splitlines()[-1]
    'ENTRYPOINT ["/venv/bin/python", "-m", "demo"]'
    """
    if not re.fullmatch(r"[^\s#]+", base_image):
        raise UsageError(f"{base_image!r} is not the name of an image: write NAME:TAG or NAME@sha256:DIGEST")
    install = _LOCKED_INSTALL if locked else _INSTALL
    return _TEMPLATE.substitute(image=image, package=package, base_image=base_image, install=install)
