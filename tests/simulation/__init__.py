"""``make sim``: thousands of seeded schedules of seven operators."""
