"""Speed and memory. Run with ``make bench``; nothing here is a test."""
