"""Odd bytes for everything that reads bytes."""
