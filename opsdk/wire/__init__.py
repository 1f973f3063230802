"""HTTP/1.1 between machines: a parser without I/O, connections, a pool. Client and server side call others with it."""
