"""The flight recorder: what crosses the boundary of an operator, in files within a size and an age."""
