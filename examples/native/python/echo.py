#!/usr/bin/python3
"""Sends back what comes, over TCP and UDP, at port 7 (RFC 862).

    sudo ./echo.py                       # or with a daemon, without root
    ./echo.py placement=kernel
"""

import sys

from qanat import Kind, Qanat, Refused


def main(words):
    options = dict(word.split("=", 1) for word in words)
    with Qanat(port=["tcp/7", "udp/7"], **options) as qanat:
        qanat.listen("0.0.0.0:7")
        qanat.bind_udp("0.0.0.0:7")
        print("serves at", qanat.address() or "the machine's addresses", flush=True)
        for event in qanat.events():
            if event.kind == Kind.DATAGRAM:
                try:
                    qanat.send_memory_to(event.object, event.address, event.memory)
                except Refused:
                    # It came in fragments, and is too long for one of ours.
                    pass
            elif event.kind == Kind.DATA:
                try:
                    qanat.send(event.object, event.bytes())
                except Refused:
                    # The peer never reads, or is gone.
                    qanat.abort(event.object)
                qanat.release(event.memory)
            elif event.kind == Kind.PEER_CLOSED:
                qanat.close(event.object)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as refused:
        sys.exit(str(refused))
