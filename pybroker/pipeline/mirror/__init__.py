"""Topics from one cluster to another, batch by batch as they lie in the log."""
