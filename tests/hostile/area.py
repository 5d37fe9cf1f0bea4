"""What the holder of an area's descriptor tries beyond the area. The descriptor is standard input; argument: bytes of the area.

Prints, as JSON, which acts happened.
"""

import ctypes
import fcntl
import json
import os
import struct
import sys

HERE = 0
END = int(sys.argv[1])
BLOCK = 4096
BLKROSET, BLKDISCARD, BLKZEROOUT, BLKPG = 0x125D, 0x1277, 0x127F, 0x1269
LOOP_SET_STATUS64, LOOP_GET_STATUS64 = 0x4C04, 0x4C05
LIBC = ctypes.CDLL(None, use_errno=True)


def read_beyond():
    return len(os.pread(HERE, BLOCK, END)) > 0


def write_beyond():
    return os.pwrite(HERE, b"!" * BLOCK, END) > 0


def write_across():
    return os.pwrite(HERE, b"!" * (2 * BLOCK), END - BLOCK) > BLOCK


def discard_beyond():
    fcntl.ioctl(HERE, BLKDISCARD, struct.pack("QQ", END, BLOCK))
    return True


def zeroes_across():
    fcntl.ioctl(HERE, BLKZEROOUT, struct.pack("QQ", END - BLOCK, 2 * BLOCK))
    return True


def partition_added():
    partition = ctypes.create_string_buffer(struct.pack("=qqi64s64s4x", 32 * END, END, 99, b"", b""))
    argument = struct.pack("@iiiP", 1, 0, len(partition), ctypes.addressof(partition))
    fcntl.ioctl(HERE, BLKPG, argument)
    partition = ctypes.create_string_buffer(struct.pack("=qqi64s64s4x", 0, 0, 99, b"", b""))
    fcntl.ioctl(HERE, BLKPG, struct.pack("@iiiP", 2, 0, len(partition), ctypes.addressof(partition)))
    return True


def made_read_only():
    fcntl.ioctl(HERE, BLKROSET, struct.pack("i", 1))
    fcntl.ioctl(HERE, BLKROSET, struct.pack("i", 0))
    return True


def grown():
    os.ftruncate(HERE, 4 * END)
    return True


def room_taken():
    # Behind the end, without a longer file.
    if LIBC.fallocate(HERE, 1, ctypes.c_long(END), ctypes.c_long(4 * END)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")
    return True


def opened_again():
    os.close(os.open("/proc/self/fd/0", os.O_RDWR))
    return True


def loop_moved():
    # Where a loop device begins in its file: back at once.
    status = bytearray(232)
    fcntl.ioctl(HERE, LOOP_GET_STATUS64, status)
    moved = bytearray(status)
    struct.pack_into("Q", moved, 24, 1 << 20)
    fcntl.ioctl(HERE, LOOP_SET_STATUS64, bytes(moved))
    fcntl.ioctl(HERE, LOOP_SET_STATUS64, bytes(status))
    return True


def happens(act):
    try:
        return act()
    except OSError:
        return False


# Direct I/O wants aligned memory; any holder may do without.
fcntl.fcntl(HERE, fcntl.F_SETFL, fcntl.fcntl(HERE, fcntl.F_GETFL) & ~os.O_DIRECT)
ACTS = [read_beyond, write_beyond, write_across, discard_beyond, zeroes_across, partition_added, made_read_only]
ACTS += [grown, room_taken, opened_again, loop_moved]
print(json.dumps({act.__name__: happens(act) for act in ACTS if act.__name__ in sys.argv[2:]}))
