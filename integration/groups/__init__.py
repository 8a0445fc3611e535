"""Groups of both protocols, with stock clients and Kafka's tools for groups."""
