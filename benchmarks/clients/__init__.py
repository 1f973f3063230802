"""One program for each client. Each runs one workload in a process of its own, see `benchmarks.protocol`."""
