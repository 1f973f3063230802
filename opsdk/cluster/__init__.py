"""One API server, and everything that belongs to talking with it: transport, client, cache, mapper, recorder."""
