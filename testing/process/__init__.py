"""Real processes: a broker, Apache Kafka and its tools, Java with what Maven brings, interpreters with other packages."""
