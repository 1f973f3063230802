"""Run the operator: ``python -m application``; ``--help`` lists its flags. ``DNS_SERVICE`` is the URL of the DNS."""

import os

import httpx

from application.dns import DnsClient
from application.operator import make_operator

URL = os.environ.get("DNS_SERVICE", "http://dns-service:8200")
operator = make_operator(DnsClient(httpx.AsyncClient(base_url=URL, timeout=10.0)))


def main() -> None:
    """Run until SIGTERM."""
    operator.main()


if __name__ == "__main__":
    main()
