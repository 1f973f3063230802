"""Controllers: sources feed a queue, workers take requests from it, a reconciler looks at each."""
