"""``make sim``: thousands of seeded schedules of three operators."""
