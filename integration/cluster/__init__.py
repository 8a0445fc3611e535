"""Several brokers as one cluster."""
