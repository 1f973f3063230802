"""The Containerfile of an operator."""

from __future__ import annotations

from string import Template

_TEMPLATE = Template("""# Build: podman build -t $image -f dist/Containerfile .
FROM docker.io/library/python:3.13-slim AS build
WORKDIR /src
COPY . .
# A folder wheels in the project may have what no package index has.
RUN mkdir -p wheels && python -m venv /venv && /venv/bin/pip install --no-cache-dir --compile --find-links wheels .

FROM docker.io/library/python:3.13-slim
COPY --from=build /venv /venv
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["/venv/bin/python", "-m", "$package"]
""")


def containerfile(image: str, package: str) -> str:
    """Return the Containerfile: two stages, no compiler and no root in the second.

    >>> containerfile("demo:1", "demo").splitlines()[-1]
    'ENTRYPOINT ["/venv/bin/python", "-m", "demo"]'
    """
    return _TEMPLATE.substitute(image=image, package=package)
