"""Run the operator: ``python -m database``; ``--help`` lists its flags. ``DATABASE_SERVICE`` is the service's URL."""

import os

import httpx

from database.operator import make_operator
from database.service import HttpDatabaseService
from database.webhooks import add_webhooks

URL = os.environ.get("DATABASE_SERVICE", "http://database-service:8100")
operator = add_webhooks(make_operator(HttpDatabaseService(httpx.AsyncClient(base_url=URL, timeout=10.0))))


def main() -> None:
    """Run until SIGTERM."""
    operator.main()


if __name__ == "__main__":
    main()
