"""Source code made from what a server publishes: typed kinds."""
