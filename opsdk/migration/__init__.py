"""What an operator uses after it was migrated from another framework: the calls and the records of its handlers."""
