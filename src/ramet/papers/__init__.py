"""What papers print and claim, next to our own runs."""
