"""Run the operator: ``python -m secret_copier``; ``--help`` lists its flags."""

from secret_copier.operator import make_operator

operator = make_operator()


def main() -> None:
    """Run until SIGTERM."""
    operator.main()


if __name__ == "__main__":
    main()
