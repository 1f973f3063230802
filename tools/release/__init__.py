"""Makes the files of a release, and refuses one that cannot be repeated: ``python -m tools.release``."""
