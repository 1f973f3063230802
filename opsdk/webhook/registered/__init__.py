"""What an operator registered at the API server: it is followed, compared with the declaration, and restored.

Nothing is exported here: import from the modules.
"""
