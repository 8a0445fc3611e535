"""Our codec, settings, cleaner and files beside those of Apache Kafka and other libraries. No broker runs; Java may."""
