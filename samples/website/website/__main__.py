"""Run the operator: ``python -m website``; ``--help`` lists its flags. ``ENABLE_WEBHOOKS=true`` adds the webhooks."""

import os

from website.operator import make_operator
from website.webhooks import add_webhooks


def main() -> None:
    """Run until SIGTERM."""
    operator = make_operator()
    if os.environ.get("ENABLE_WEBHOOKS") == "true":
        add_webhooks(operator)
    operator.main()


if __name__ == "__main__":
    main()
