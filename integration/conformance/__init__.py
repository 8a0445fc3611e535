"""Our codec, settings, cleaner and files beside those of Apache Kafka and of other libraries. No broker runs, but Java may."""
