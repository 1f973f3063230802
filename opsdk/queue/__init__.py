"""The work queue: which request is worked on next. One queue, whose core is pure."""
