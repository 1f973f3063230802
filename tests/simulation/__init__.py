"""``make sim``: thousands of seeded schedules of four operators."""
