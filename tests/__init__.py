"""Unit tests: no sockets, no sleeps, no real clock. One folder per package of the broker, and scenarios, crash and fuzz."""
