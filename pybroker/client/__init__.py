"""A blocking client of one broker, for what runs beside the broker: Kafka's tools, the doctor, and the jobs of Spark.

frames          requests and responses as bytes over one socket, and a reader of those bytes
requests        the version and the bytes of a request, for a broker's own connections, too
connection      messages by the codec: which versions a broker serves, requests in flight, the response to each
security        TLS and logins, as a client's properties have them
errors          what can go wrong
address         parses HOST:PORT
partitioner     which partition a key belongs to

Health checks use `frames`, `errors` and `address` alone, which import neither the codec nor `typing`: `docs/design/tools.md` has
what that saves.
"""
