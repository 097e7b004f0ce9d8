"""All servers of benches/ipvs.sh: who connects hears by which address, and then nothing more."""

import selectors
import socket

listener = socket.create_server(("0.0.0.0", 80), backlog=1024)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        if key.fileobj is listener:
            connection, _ = listener.accept()
            selector.register(connection, selectors.EVENT_READ)
            connection.sendall(connection.getsockname()[0].encode() + b"\n")
            continue
        try:
            ended = not key.fileobj.recv(64)
        except OSError:
            ended = True
        if ended:
            selector.unregister(key.fileobj)
            key.fileobj.close()
