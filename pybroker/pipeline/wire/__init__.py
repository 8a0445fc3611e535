"""A small blocking client of Kafka's protocol, for jobs that need batches as they lie in the log."""
