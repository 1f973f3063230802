"""Run the operator: ``python -m website``; ``--help`` lists its flags."""

from website.operator import make_operator
from website.webhooks import add_webhooks

operator = add_webhooks(make_operator())


def main() -> None:
    """Run until SIGTERM."""
    operator.main()


if __name__ == "__main__":
    main()
