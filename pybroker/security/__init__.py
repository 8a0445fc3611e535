"""Identity, encryption and permission: rules that compute on values, without a connection and without the cluster.

sasl/        the logins of clients
failures     one log line for a login or a handshake that failed
principal    the identity of a client, as text
tokens       delegation tokens, by which others log in as a user
acl/         access control lists, and the authorizer that decides by them
tls/         keys, certificates and the contexts of OpenSSL
quotas/      what clients may use, and how long they wait when they use more

Nothing here imports a library of cryptography before a setting asks for it: a broker whose listeners are all PLAINTEXT pays
nothing. No secret is ever part of a log line, an error or a metric.
"""
