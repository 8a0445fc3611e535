"""TLS: what Kafka's `ssl.*` properties mean to OpenSSL. Nothing here is imported before a listener or a client needs TLS.

settings             the properties of one listener, or of a client
stores               reads keys, certificates and trusted certificates, of PEM and of PKCS12
cipher_suites        the names of cipher suites in Java and in OpenSSL
contexts             makes the context of a server and of a client
distinguished_name   the name in a certificate, as Java prints it
mapping_rules        what part of that name is a user's name
certificates         makes an authority, keys and certificates, for development and tests
listener             the TLS of one listener: its context, which may be replaced, and the principals of its clients
"""
