"""The sockets of the broker: connections, requests bounded by memory, muting; asynchronous, in one event loop.

server               the listeners, the limits on connections, idle connections, the stop
binding              binds the sockets of the listeners, before the server listens
acceptor             accepts the connections of one listener while there is room for them
connection_rates     how long a listener waits because connections come too fast
handshakes           the TLS handshakes of one listener: their number, time and memory
tls_transport        TLS between a connection and its socket
connection           one connection: joins receiver, sender and mute table to an asyncio protocol
receiver, sender     bytes to requests, responses to bytes; both without a socket
large_pieces         how many connections may have large pieces of responses at a time
strangers            closes connections that only hold what clients need
gate                 the gate of a SASL listener, as the server sees it
connection_owner     the server, as its connections see it
context              what the network hands to the request handler, and what the handler returns
postponed            has a request handled after something else
admission            when a connection may begin to receive a request
state                what each request reads of the pool, the admission and its connection's context
sizes                the sizes in front of requests
memory_pool          the bounded memory of incoming requests (KIP-72)
untouched            memory that is taken as it is written to
mute                 the reasons for which a connection is not read, and the events that set and clear them
hangups              notices the end of a peer whose connection is not read
client               a connection to another broker, from the client's side
limits, counters     the settings of the network, and its counters for the metrics
"""
