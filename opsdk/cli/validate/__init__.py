"""``opsdk validate``."""
