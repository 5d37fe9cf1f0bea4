#!/usr/bin/python3
"""An HTTP server without files: it answers every request with the same page, at port 8080.

    sudo ./http_hello.py
    curl http://10.77.0.2:8080/
"""

import sys

from qanat import Kind, Qanat, Refused, Setting

BODY = b"It flows.\n"
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
HEAD_MAX = 16384


def main(words):
    options = dict(word.split("=", 1) for word in words)
    heads = {}
    with Qanat(port="tcp/8080", **options) as qanat:
        qanat.listen("0.0.0.0:8080")
        print("serves at", qanat.address() or "the machine's addresses", flush=True)
        for event in qanat.events():
            connection = event.object
            if event.kind == Kind.ACCEPTED:
                heads[connection] = b""
                qanat.set(connection, Setting.NO_DELAY, 1)
            elif event.kind == Kind.DATA:
                *ended, rest = (heads[connection] + event.bytes()).split(b"\r\n\r\n")
                qanat.release(event.memory)
                heads[connection] = rest
                try:
                    if len(rest) > HEAD_MAX:
                        qanat.abort(connection)
                    elif ended:
                        qanat.send(connection, PAGE * len(ended))
                except Refused:
                    qanat.abort(connection)
            elif event.kind == Kind.PEER_CLOSED:
                qanat.close(connection)
            elif event.kind == Kind.CLOSED:
                heads.pop(connection, None)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as refused:
        sys.exit(str(refused))
