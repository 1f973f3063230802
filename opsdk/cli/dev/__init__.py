"""``opsdk dev``: an operator that is reloaded when its source changes, beside a local API server."""
