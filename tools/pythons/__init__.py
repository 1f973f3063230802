"""Runs the tests on several Pythons, and prints what each of them gave: ``make test-pythons``."""
