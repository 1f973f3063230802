"""``opsdk dev``: runs an operator against a local API server and reloads it when its source changes."""
