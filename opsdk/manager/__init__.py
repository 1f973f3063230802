"""Runs everything an operator is made of, in order, and stops it in the reverse order.

The manager knows only Runnables; what a controller or a cache is, is not its business.
"""
