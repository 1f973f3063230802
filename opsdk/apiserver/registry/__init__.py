"""Objects with rules: capability protocols, strategies, and the generic store that applies them to a storage."""
