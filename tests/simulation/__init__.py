"""``make sim``: thousands of seeded schedules of six operators."""
