"""``make sim``: thousands of seeded schedules of five operators."""
