"""Small operators with a planted bug each, and a repaired twin of each."""
