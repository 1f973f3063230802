"""Values and protocols that every floor uses: options, causes, limits, extras, runnables."""
