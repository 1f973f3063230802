"""The error of this tool."""


class GenerateError(Exception):
    """Something is missing or does not fit; the message says what to do next."""
