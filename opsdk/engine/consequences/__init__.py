"""What follows from the writes of a run: one module for each sort of consequence. Pure."""
