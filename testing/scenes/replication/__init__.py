"""A replica manager on model logs."""
