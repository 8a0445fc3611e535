"""Requests byte by byte. `raw`, `legacy`, `batches` and `frames` share no code with each other or the broker, as oracles must."""
