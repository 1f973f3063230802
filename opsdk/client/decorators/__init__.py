"""Executors that wrap another executor, and change or reject its operations."""
