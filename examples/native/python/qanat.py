"""libqanat-native for Python, by ctypes: the events and commands of the header, with exceptions for refusals.

    with Qanat(placement="linked", address="10.77.0.2/24", port=["tcp/7"]) as qanat:
        qanat.listen("0.0.0.0:7")
        for event in qanat.events():
            ...
"""

import ctypes
import enum
import signal
import socket
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p


class Kind(enum.IntEnum):
    """What happened: qanat_event_kind of the header, which says what each has."""

    ACCEPTED, CONNECTED, DATA, ACKED, URGENT, PEER_CLOSED, CLOSED, DATAGRAM = range(1, 9)
    TIMER, ADDRESS_CONFLICT, READABLE, WOKEN, READ, WRITTEN, FLUSHED, ZEROED = range(9, 17)


class Setting(enum.IntEnum):
    """What of a connection can be set."""

    NO_DELAY, CORK, USER_TIMEOUT, PACING_RATE, RECEIVE_WINDOW_MAX, CONGESTION = range(6)


class Address(ctypes.Structure):
    """qanat_address."""

    _fields_ = [("ip", c_uint8 * 16), ("port", c_uint16), ("family", c_uint8), ("reserved", c_uint8 * 5)]

    @classmethod
    def of(cls, text):
        """Reads `10.77.0.2:80` or `[fd77::2]:80`."""
        address = cls()
        _check(_library.qanat_address_parse(text.encode(), byref(address)))
        return address

    def __str__(self):
        text = ctypes.create_string_buffer(64)
        _check(_library.qanat_address_text(byref(self), text, 64))
        return text.value.decode()


class Event(ctypes.Structure):
    """qanat_event. It is good until the next events are asked for."""

    _fields_ = [
        ("kind", c_uint32),
        ("status", c_int32),
        ("object", c_uint64),
        ("token", c_uint64),
        ("memory", c_uint64),
        ("data", c_void_p),
        ("length", c_size_t),
        ("address", Address),
    ]

    def bytes(self):
        """A copy of what is lent."""
        return ctypes.string_at(self.data, self.length)


class Block(ctypes.Structure):
    """qanat_block: memory to fill."""

    _fields_ = [("memory", c_uint64), ("data", c_void_p), ("length", c_size_t)]


class Geometry(ctypes.Structure):
    """qanat_geometry: what an area is like."""

    _fields_ = [
        ("blocks", c_uint64),
        ("block_bytes", c_uint32),
        ("atomic_bytes", c_uint32),
        ("transfer_bytes_max", c_uint32),
        ("depth", c_uint32),
        ("volatile_cache", c_uint8),
        ("reserved", c_uint8 * 7),
    ]


class Refused(Exception):
    """A call was refused: `status` is the header's number."""

    def __init__(self, status):
        texts = _library.qanat_last_error if status in (-8, -10) else lambda: _library.qanat_status_text(status)
        super().__init__(texts().decode())
        self.status = status


_library = ctypes.CDLL("libqanat-native.so.1")
_library.qanat_options_new.restype = c_void_p
_library.qanat_options_free.restype = None
_library.qanat_wake.restype = None
_library.qanat_version.restype = c_uint32
for _text in (_library.qanat_status_text, _library.qanat_last_error, _library.qanat_close_reason_text):
    _text.restype = c_char_p
_handle, _number, _place = c_void_p, c_uint64, POINTER(c_uint64)
_calls = {
    "options_set": [_handle, c_char_p, c_char_p],
    "options_free": [_handle],
    "start": [_handle, POINTER(c_void_p)],
    "next": [_handle, c_int64, POINTER(POINTER(Event)), POINTER(c_size_t)],
    "end": [_handle],
    "wake": [_handle],
    "watch": [_handle, c_int, _number],
    "unwatch": [_handle, _number],
    "now": [_handle, _place],
    "address_at": [_handle, c_size_t, POINTER(Address)],
    "set_timer": [_handle, _number, _number, _place],
    "cancel_timer": [_handle, _number],
    "listen": [_handle, POINTER(Address), c_size_t, _place],
    "close_listener": [_handle, _number],
    "connect": [_handle, POINTER(Address), POINTER(Address), c_uint32, _place],
    "send": [_handle, _number, c_char_p, c_size_t],
    "shutdown": [_handle, _number],
    "close": [_handle, _number],
    "abort": [_handle, _number],
    "refuse": [_handle, _number],
    "set": [_handle, _number, c_uint32, _number],
    "bind_udp": [_handle, POINTER(Address), _place],
    "close_udp": [_handle, _number],
    "send_to": [_handle, _number, POINTER(Address), c_char_p, c_size_t],
    "send_memory_to": [_handle, _number, POINTER(Address), _number],
    "release": [_handle, _number],
    "writable": [_handle, _number, c_size_t, POINTER(c_void_p)],
    "has": [_handle, c_uint32],
    "send_room": [_handle, _number, POINTER(c_int64)],
    "set_keepalive": [_handle, _number, c_uint32, c_uint32, c_uint8],
    "lend": [_handle, _number, c_void_p, c_size_t, c_void_p, c_void_p],
    "area_geometry": [_handle, _number, POINTER(Geometry)],
    "write_zeroes": [_handle, _number, _number, _number, _number],
    "block_new": [_handle, c_size_t, POINTER(Block)],
    "block_seal": [_handle, _number, c_size_t],
    "send_block": [_handle, _number, _number],
    "area_block": [_handle, _number, POINTER(Block)],
    "read": [_handle, _number, _number, c_size_t, _number],
    "write": [_handle, _number, _number, _number, c_size_t, c_uint8, _number],
    "flush": [_handle, _number, _number],
}
for _name, _arguments in _calls.items():
    getattr(_library, "qanat_" + _name).argtypes = _arguments
if _library.qanat_version() != 1:
    raise ImportError("libqanat-native.so.1 has another interface than this module")


_STALE = -1
_BELL = 2**63


def _check(status, also=0):
    if status not in (0, also):
        raise Refused(status)


class Qanat:
    """A stack. Options are given by their names, with `_` for `-`; one that may be repeated is a list."""

    def __init__(self, **options):
        asked = _library.qanat_options_new()
        try:
            for name, values in options.items():
                for value in values if isinstance(values, (list, tuple)) else [values]:
                    _check(_library.qanat_options_set(asked, name.replace("_", "-").encode(), str(value).encode()))
            self._handle = c_void_p()
            _check(_library.qanat_start(asked, byref(self._handle)))
        finally:
            _library.qanat_options_free(asked)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def __getattr__(self, name):
        """Every other call of the header: its arguments after the first; refusals are exceptions. Whoever closes what is gone already
        has what was wanted: a peer may reset a connection at any time."""
        if name not in _calls:
            raise AttributeError(name)
        call, is_end = getattr(_library, "qanat_" + name), name in ("close", "abort", "refuse", "shutdown", "set")
        return lambda *arguments: _check(call(self._handle, *arguments), also=_STALE if is_end else 0)

    def end(self):
        """Frees everything."""
        if self._handle:
            _check(_library.qanat_end(self._handle))
            self._handle = None

    def wake(self):
        """Has `next` return: from any thread."""
        _library.qanat_wake(self._handle)

    def next(self, patience=None):
        """The next events; waits so many seconds for them at most."""
        events, count = POINTER(Event)(), c_size_t()
        nanoseconds = -1 if patience is None else int(patience * 1e9)
        _check(_library.qanat_next(self._handle, nanoseconds, byref(events), byref(count)))
        return (events[place] for place in range(count.value))

    def events(self):
        """All events until Ctrl-C or SIGTERM."""
        stopped = []
        # Python runs a handler only between its own steps, so the library is told by a descriptor that the interpreter writes to.
        bell, rung = socket.socketpair()
        rung.setblocking(False)
        before = {number: signal.signal(number, lambda *_: stopped.append(True)) for number in (signal.SIGINT, signal.SIGTERM)}
        written_before = signal.set_wakeup_fd(rung.fileno())
        self.watch(bell.fileno(), _BELL)
        try:
            while not stopped:
                for event in self.next():
                    if event.kind == Kind.READABLE and event.token == _BELL:
                        bell.recv(64)
                    else:
                        yield event
        finally:
            signal.set_wakeup_fd(written_before)
            for number, handler in before.items():
                signal.signal(number, handler)
            if self._handle:
                self.unwatch(_BELL)
            bell.close()
            rung.close()

    def _number(self, call, *arguments):
        number = c_uint64()
        _check(call(self._handle, *arguments, byref(number)))
        return number.value

    def address(self):
        """The first address of the stack, or None if it has all of the machine's."""
        address = Address()
        return address if _library.qanat_address_at(self._handle, 0, byref(address)) == 0 else None

    def listen(self, local, backlog=0):
        """Listens at an address and port. Returns the listener."""
        return self._number(_library.qanat_listen, Address.of(local), backlog)

    def bind_udp(self, local):
        """Opens a UDP socket. Returns it."""
        return self._number(_library.qanat_bind_udp, Address.of(local))

    def connect(self, peer):
        """Connects. Returns the connection, of which events tell."""
        return self._number(_library.qanat_connect, Address.of(peer), None, 0)

    def set_timer(self, after, token):
        """Sets a timer, in seconds. Returns it."""
        return self._number(_library.qanat_set_timer, int(after * 1e9), token)

    def send(self, connection, data):
        """Sends bytes."""
        _check(_library.qanat_send(self._handle, connection, data, len(data)))

    def send_to(self, socket, peer, data):
        """Sends a datagram."""
        _check(_library.qanat_send_to(self._handle, socket, byref(peer), data, len(data)))
