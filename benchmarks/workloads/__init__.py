"""One module for each workload of the table."""
