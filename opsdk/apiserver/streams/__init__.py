"""Several streams over one WebSocket, as kubectl and others speak it to pods."""
