"""Run the operator: ``python -m database``; ``--help`` lists its flags. ``DATABASE_SERVICE`` is the service's URL."""

import os

import httpx

from database.operator import make_operator
from database.service import HttpDatabaseService
from database.webhooks import add_webhooks
from opsdk.recording.calls import record_calls

URL = os.environ.get("DATABASE_SERVICE", "http://database-service:8100")
# A recording (--recording-dir) keeps the results, so that `opsdk replay` needs no service.
service = record_calls(HttpDatabaseService(httpx.AsyncClient(base_url=URL, timeout=10.0)), name="service")
operator = add_webhooks(make_operator(service))


def main() -> None:
    """Run until SIGTERM."""
    operator.main()


if __name__ == "__main__":
    main()
