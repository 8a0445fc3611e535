"""The durable log, in Kafka's format on disk; synchronous."""
