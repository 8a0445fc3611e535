"""Where the cluster's metadata is kept: in memory or in a durable file."""
