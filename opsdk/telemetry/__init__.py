"""What happened, as frozen records handed to hooks: no metrics or logging library is named here."""
