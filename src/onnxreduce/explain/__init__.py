"""Other ways to look at a fault: where it begins, since which version, through which optimizer."""
