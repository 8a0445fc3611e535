"""Kafka's own command line tools, of 3.9 and 4.x, with our broker."""
