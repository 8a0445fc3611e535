"""Parts of a broker as unit tests need them: real logs or models of them, no sockets but in `network_toy`, manual clocks."""
