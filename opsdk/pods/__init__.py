"""Into a Pod: logs, commands, files and ports."""
