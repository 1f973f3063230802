"""Speed and memory of opsdk beside other Python clients: ``make bench`` and ``make bench-quick``."""
