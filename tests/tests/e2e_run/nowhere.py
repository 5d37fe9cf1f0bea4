"""A master as root with a listener on the card. Its worker becomes nobody, so the master leaves the memory that the two share. Then it
makes calls with pointers to nowhere, and says what came of each: 0, or the error."""

import ctypes
import os
import socket

library = ctypes.CDLL(None, use_errno=True)
listener = socket.create_server(("10.77.0.2", 7000))
(told, tell), (go, start) = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(start)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    os.write(tell, b"!")
    # Until the master has ended.
    os.read(go, 1)
    os._exit(0)
os.close(go)
os.read(told, 1)


def said(name, *arguments):
    ctypes.set_errno(0)
    status = getattr(library, name)(*arguments)
    print(name, ctypes.get_errno() if status else 0, flush=True)


fd, nowhere = listener.fileno(), ctypes.c_void_p(8)
number, size = ctypes.c_int(1), ctypes.c_uint(4)
keepalive = (fd, socket.SOL_SOCKET, socket.SO_KEEPALIVE)
said("setsockopt", *keepalive, nowhere, 4)
said("setsockopt", *keepalive, ctypes.c_void_p(0), 4)
said("setsockopt", *keepalive, ctypes.c_void_p(0), 0)
said("setsockopt", *keepalive, ctypes.byref(number), 1 << 31)
said("getsockopt", *keepalive, nowhere, ctypes.byref(size))
said("getsockopt", *keepalive, ctypes.byref(number), nowhere)
other = socket.socket()
said("bind", other.fileno(), nowhere, 16)
FIONBIO, FIOCLEX = 0x5421, 0x5451
said("ioctl", fd, FIONBIO, nowhere)
said("ioctl", fd, FIOCLEX, nowhere)
# The socket is as good as before.
said("setsockopt", *keepalive, ctypes.byref(number), 4)
print(listener.getsockname(), flush=True)
