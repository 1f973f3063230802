"""Print the definition of the Website kind: ``python -m website.crd | kubectl apply -f -``."""

from __future__ import annotations

import sys

import yaml

from opsdk import crd_for
from website.api import Website


def main() -> None:
    """Write the definition as YAML."""
    yaml.safe_dump(crd_for(Website), sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
