"""Run the operator: ``python -m website``; ``--help`` lists its flags."""

from website.operator import make_operator


def main() -> None:
    """Run until SIGTERM."""
    make_operator().main()


if __name__ == "__main__":
    main()
