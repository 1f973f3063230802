"""Programs for those who work on opsdk. Nothing in the packages imports them."""
