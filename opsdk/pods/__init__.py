"""Into a Pod: logs, commands and ports."""
