"""Lists the machine's interfaces in each of the ways there are, as lines."""
import array, ctypes, fcntl, os, socket, struct, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
NAME, IP_PKTINFO = 'qanat-card', 8
index = socket.if_nametoindex(NAME)
print('index', index == dict((name, index) for index, name in socket.if_nameindex())[NAME], socket.if_indextoname(index))
print('names', [name for _, name in socket.if_nameindex()])
try: print(socket.if_nametoindex('no-such'))
except OSError: print('no other')


class Entry(ctypes.Structure):
    pass


Entry._fields_ = [('next', ctypes.POINTER(Entry)), ('name', ctypes.c_char_p), ('flags', ctypes.c_uint)] + \
    [(name, ctypes.c_void_p) for name in ('address', 'mask', 'broadcast', 'data')]


def text(pointer):
    if not pointer: return None
    family, = struct.unpack('H', ctypes.string_at(pointer, 2))
    if family == socket.AF_INET: return socket.inet_ntoa(ctypes.string_at(pointer + 4, 4))
    if family == socket.AF_INET6: return socket.inet_ntop(family, ctypes.string_at(pointer + 8, 16))
    if family == socket.AF_PACKET: return 'packet', struct.unpack('i', ctypes.string_at(pointer + 4, 4))[0] == index


for _ in range(3):
    first = ctypes.POINTER(Entry)()
    assert libc.getifaddrs(ctypes.byref(first)) == 0
    entries, at = [], first
    while at:
        e = at.contents
        entries.append((e.name.decode(), hex(e.flags), text(e.address), text(e.mask), text(e.broadcast)))
        at = e.next
    libc.freeifaddrs(first)
for entry in entries:
    if entry[0] == NAME: print('getifaddrs', *entry)
print('the kernel\'s too', any(entry[0] == 'lo' for entry in entries))

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
request = lambda number, value=b'': fcntl.ioctl(s, number, struct.pack('16s24s', NAME.encode(), value))[16:]
print('flags', struct.unpack('H', request(0x8913)[:2])[0] == int(entries[-1][1], 16) & 0xffff)
for name, number in (('address', 0x8915), ('broadcast', 0x8919), ('mask', 0x891b)):
    print(name, socket.inet_ntoa(request(number)[4:8]))
print('mtu', struct.unpack('i', request(0x8921)[:4])[0])
mac = request(0x8927)
print('mac', mac[:2], any(mac[2:8]))
print('index', struct.unpack('i', request(0x8933)[:4])[0] == index)
print('name', fcntl.ioctl(s, 0x8910, struct.pack('16si20s', b'', index, b''))[:16].rstrip(b'\0'))
for room in (40 * 50, 40, 0):
    buffer = array.array('B', bytes(room))
    length, place = struct.unpack('iP', fcntl.ioctl(s, 0x8912, struct.pack('iP', room, buffer.buffer_info()[0] if room else 0)))
    found = [buffer.tobytes()[at:at + 16].rstrip(b'\0').decode() for at in range(0, length, 40)] if room else []
    print('list of', room, length, found)


def dump(kind, family, how):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    body = struct.pack('BxHiII', family, 0, 0, 0, 0)
    message = struct.pack('IHHII', 16 + len(body), kind, 0x301, 7, 0) + body
    {'send': s.send, 'sendto': lambda m: s.sendto(m, (0, 0)), 'sendmsg': lambda m: s.sendmsg([m], [], 0, (0, 0)), 'write': lambda m: os.write(s.fileno(), m)}[how](message)
    found, own = 0, 0
    while True:
        data = {'send': lambda: s.recv(65536), 'sendto': lambda: s.recvfrom(65536)[0], 'sendmsg': lambda: s.recvmsg(65536)[0], 'write': lambda: os.read(s.fileno(), 65536)}[how]()
        at = 0
        while at < len(data):
            length, type_, flags, sequence, port = struct.unpack_from('IHHII', data, at)
            if type_ == 3: return found, own
            assert sequence == 7 and port == s.getsockname()[0] and type_ != 2, (type_, sequence, port)
            found += 1
            by_header = kind != 26 and data[at + 20:at + 24] == struct.pack('i', index)
            own += by_header or kind == 26 and struct.pack('HHI', 8, 4, index) in data[at:at + length]
            at += length + 3 & ~3


for how in ('send', 'sendto', 'sendmsg', 'write'):
    for name, kind in (('links', 18), ('addresses', 22), ('routes', 26)):
        found, own = dump(kind, 0, how)
        print(how, name, own, found > own)
print('of one family', dump(22, socket.AF_INET, 'send')[1], dump(22, socket.AF_INET6, 'send')[1])

# Which of its interfaces a datagram came by.
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
u.bind(('10.77.0.2', 7000))
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
six.bind(('fd77::2', 7000))
print('waits', flush=True)
data, beside, _, peer = u.recvmsg(100, 100)
print('came by', struct.unpack('i', beside[0][2][:4])[0] == index)
# And it goes back by the same.
u.sendmsg([data], [(socket.IPPROTO_IP, IP_PKTINFO, beside[0][2][:4] + socket.inet_aton('10.77.0.2') + bytes(4))], 0, peer)
data, beside, _, peer = six.recvmsg(100, 100)
print('came by', struct.unpack('i', beside[0][2][16:20])[0] == index)
six.sendmsg([data], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, beside[0][2])], 0, peer)
