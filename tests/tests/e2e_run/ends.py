"""A program whose children end, by `_exit` and by `exit`, while four of their threads are in and out of the stack all the time. None of
them may be cut off in the middle of it: the parent goes on with the same stack."""

import ctypes
import os
import socket
import threading
import time

library = ctypes.CDLL(None)
ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ours.bind(("10.77.0.2", 7000))


def send():
    while True:
        try:
            ours.sendto(b"x" * 1000, ("10.77.0.1", 7001))
        except OSError:
            pass


for number in range(200):
    child = os.fork()
    if child == 0:
        for _ in range(4):
            threading.Thread(target=send, daemon=True).start()
        time.sleep(0.004)
        if number % 2:
            os._exit(3)
        library.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
ours.sendto(b"still here", ("10.77.0.1", 7001))
print("all ended", flush=True)
