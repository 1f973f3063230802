"""Run the operator: ``python -m database``; ``--help`` lists its flags, such as ``--leader-elect``.

``DATABASE_SERVICE`` is the URL of the service. ``ENABLE_WEBHOOKS=true`` adds the webhooks.
"""

import os

import httpx

from database.api import Database
from database.operator import make_operator
from database.service import HttpDatabaseService
from database.webhooks import declare

URL = os.environ.get("DATABASE_SERVICE", "http://127.0.0.1:8100")
operator = make_operator(HttpDatabaseService(httpx.AsyncClient(base_url=URL, timeout=10.0)))
if os.environ.get("ENABLE_WEBHOOKS") == "true":
    declare(operator.webhook_for(Database))


def main() -> None:
    """Run until SIGTERM."""
    operator.main()


if __name__ == "__main__":
    main()
