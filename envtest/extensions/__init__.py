"""Custom resources: their definitions, and the server that serves what is defined."""
