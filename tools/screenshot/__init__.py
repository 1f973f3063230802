"""Makes images of the documentation that programs draw: ``make screenshots``."""
