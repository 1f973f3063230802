"""Generates typed kinds from the schemas that a server publishes."""
