"""Run the operator: ``python -m database``; ``--help`` lists its flags, such as ``--leader-elect``.

``DATABASE_SERVICE`` is the URL of the service. ``ENABLE_WEBHOOKS=true`` adds the webhooks.
"""

import os

import httpx

from database.api import Database
from database.operator import make_operator
from database.service import HttpDatabaseService
from database.webhooks import declare
from opsdk import Operator


def make() -> Operator:
    """Return the operator as the environment describes it."""
    url = os.environ.get("DATABASE_SERVICE", "http://127.0.0.1:8100")
    operator = make_operator(HttpDatabaseService(httpx.AsyncClient(base_url=url, timeout=10.0)))
    if os.environ.get("ENABLE_WEBHOOKS") == "true":
        declare(operator.webhook_for(Database))
    return operator


def main() -> None:
    """Run until SIGTERM."""
    make().main()


if __name__ == "__main__":
    main()
