"""CPU and memory of the working tree beside an older commit, in turn, in one run: `make bench-ratio`."""
