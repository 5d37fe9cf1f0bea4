// SPDX-License-Identifier: Apache-2.0
// The fence around every VNIC, two programs over one set of tables:
//
//     application ── queue ── VNIC's end ═══ veth ═══ switch's end ── the kernel
//                              deliver                    gate ── other VNICs' switch ends
//
// `gate` sees what a VNIC sends: it drops what no transmit filter allows, polices, counts, and switches what is for
// another VNIC straight to it. `deliver` sees what is about to reach a VNIC: it drops what is not addressed to it or what
// no receive filter allows, throttles, counts, and puts the rest into the application's ring.
//
// Nothing here trusts a byte of a frame. Tables are written by the daemon only. Layouts: twin of src/daemon/tables.rs.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define VNICS_MAX 256
#define QUEUES_MAX 16
#define FILTERS_MAX 16384      // of all VNICs
#define VNIC_FILTERS_MAX 1024  // of one VNIC and direction
#define SCANNED_MAX 4          // so few filters are compared faster than the flow is looked up
#define FLOWS_PER_VNIC 256
#define LIMITS_MAX 1024
#define OWNERS_MAX 4096
#define FRAME_OVERHEAD 24      // preamble, frame check sequence, gap: what a frame costs a wire beyond its bytes
#define NEIGHBOUR_OPTIONS_MAX 4

#define ETHERTYPE_SERVICE_TAG 0x88a8
#define ARP_REQUEST 1
#define ARP_REPLY 2

// Why a frame was dropped or what became of it. One row of counters per VNIC and direction.
enum cause {
    PASSED_TO_KERNEL,
    SWITCHED,
    DELIVERED,
    NO_VNIC,
    TOO_SHORT,
    SOURCE_MAC,
    VLAN_TAG,
    ETHERTYPE,
    ARP_FORGED,
    ND_FORGED,
    SOURCE_ADDRESS,
    FRAGMENT,
    OPTIONS,
    EXTENSION_HEADER,
    ICMP_TYPE,
    NO_FILTER,
    RATE_BITS,
    RATE_PACKETS,
    DESTINATION_MAC,
    NOT_ADDRESSED,
    NO_QUEUE,
    NOT_SWITCHED,
    CAUSES
};

enum direction { TRANSMIT, RECEIVE, DIRECTIONS };

#define FLAG_ICMP 1     // may send and receive ICMP echo and errors
#define FLAG_SWITCH 2   // may reach other VNICs
#define FLAG_UNFENCED 4 // for tests that show what the fence is good for: everything passes

struct vnic {
    __u8 mac[6];       // the application's end
    __u8 host_mac[6];  // the switch's end
    __u32 flags;
    __u32 filters[DIRECTIONS];    // first << 16 | count, swapped as one word
    __u32 generation;             // of filters: what was cached under another is void
    __u32 limits[DIRECTIONS][2];  // rows of `limits`: the VNIC's own, its owner's; 0: none
    __u32 reserved;
};

struct address {
    __u8 bytes[16]; // IPv4 as ::ffff:a.b.c.d
} __attribute__((aligned(4)));

// A convex sub-volume of header space, addresses by prefix, the rest by range. `local` is the VNIC's side.
struct filter {
    struct address local, local_mask, peer, peer_mask;
    __u16 local_first, local_last, peer_first, peer_last; // host order, inclusive
    __u8 protocol_first, protocol_last;
    __u8 reserved[6];
};

struct flow {
    struct address local, peer;
    __u16 local_port, peer_port;
    __u8 protocol;
    __u8 direction;
    __u16 reserved;
    __u32 generation;
    __u32 allowed; // set last: 1 + verdict
};

// A rate as virtual scheduling (GCRA, ITU-T I.371): `arrival` is when the bucket would be full again. Times in 1/16 ns.
struct limit {
    __u64 per_byte;   // 16.16 fixed point; 0: unlimited
    __u64 per_packet; // 0: unlimited
    __u64 tolerance_bits, tolerance_packets;
    __u64 arrival_bits, arrival_packets;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH); // switch end's interface → VNIC
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, VNICS_MAX);
} gates SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH); // VNIC end's interface → VNIC
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, VNICS_MAX);
} ends SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct vnic);
    __uint(max_entries, VNICS_MAX);
} vnics SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH); // address → VNIC
    __type(key, struct address);
    __type(value, __u32);
    __uint(max_entries, OWNERS_MAX);
} owners SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct filter);
    __uint(max_entries, FILTERS_MAX);
} filters SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); // direct-mapped, a share for each VNIC: none can push out another's
    __type(key, __u32);
    __type(value, struct flow);
    __uint(max_entries, VNICS_MAX * FLOWS_PER_VNIC);
} flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct limit);
    __uint(max_entries, LIMITS_MAX);
} limits SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64[2]); // frames, bytes
    __uint(max_entries, VNICS_MAX * DIRECTIONS * CAUSES);
} counters SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP); // VNIC → its switch end
    __uint(key_size, 4);
    __uint(value_size, 8);
    __uint(max_entries, VNICS_MAX);
} ports SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP); // VNIC × QUEUES_MAX + queue → the application's socket
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, VNICS_MAX * QUEUES_MAX);
} sockets SEC(".maps");

struct arp_ipv4 { // RFC 826 for Ethernet and IPv4
    __be16 hardware, protocol;
    __u8 hardware_length, protocol_length;
    __be16 operation;
    __u8 sender_mac[6];
    __be32 sender_ip;
    __u8 target_mac[6];
    __be32 target_ip;
} __attribute__((packed));

struct tcp {
    __be16 source, destination;
    __be32 sequence, acknowledgement;
    __u8 offset, flags;
    __be16 window, checksum, urgent;
};

struct udp {
    __be16 source, destination, length, checksum;
};

struct icmp {
    __u8 type, code;
    __be16 checksum;
    __be32 rest;
};

// What the tables are asked about a packet, from the VNIC's side.
struct packet {
    struct address local, peer;
    __u16 local_port, peer_port;
    __u8 protocol;
    __u8 is_neighbour; // ARP or ND, checked already: no filter is asked, and `peer` says whom it is for
    __u8 is_icmp;
    __u8 reserved;
};

static __always_inline int same_mac(const __u8 *one, const __u8 *other) {
    const __u16 *a = (const void *)one, *b = (const void *)other;
    return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]));
}

static __always_inline struct address from_v4(__be32 address) {
    struct address mapped = {};
    mapped.bytes[10] = mapped.bytes[11] = 0xff;
    __builtin_memcpy(mapped.bytes + 12, &address, 4);
    return mapped;
}

static __always_inline struct address from_v6(const struct in6_addr *address) {
    struct address same;
    __builtin_memcpy(&same, address, 16);
    return same;
}

static __always_inline int is_unspecified(const struct address *address) {
    const __u32 *words = (const void *)address;
    return !(words[0] | words[1] | words[2] | words[3]);
}

static __always_inline int same_address(const struct address *one, const struct address *other) {
    const __u32 *a = (const void *)one, *b = (const void *)other;
    return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

static __always_inline int owns(__u32 slot, const struct address *address) {
    __u32 *owner = bpf_map_lookup_elem(&owners, address);
    return owner && *owner == slot;
}

static __always_inline int within(const struct address *address, const struct address *base, const struct address *mask) {
    const __u32 *a = (const void *)address, *b = (const void *)base, *m = (const void *)mask;
    return !(((a[0] ^ b[0]) & m[0]) | ((a[1] ^ b[1]) & m[1]) | ((a[2] ^ b[2]) & m[2]) | ((a[3] ^ b[3]) & m[3]));
}

static __always_inline int matches(const struct filter *filter, const struct packet *packet) {
    return filter->protocol_first <= packet->protocol && packet->protocol <= filter->protocol_last &&
           filter->local_first <= packet->local_port && packet->local_port <= filter->local_last &&
           filter->peer_first <= packet->peer_port && packet->peer_port <= filter->peer_last &&
           within(&packet->local, &filter->local, &filter->local_mask) &&
           within(&packet->peer, &filter->peer, &filter->peer_mask);
}

struct search {
    const struct packet *packet;
    __u32 first;
    int found;
};

static long compare(__u32 index, struct search *search) {
    __u32 row = search->first + index;
    struct filter *filter = bpf_map_lookup_elem(&filters, &row);
    if (!filter)
        return 1;
    search->found = matches(filter, search->packet);
    return search->found;
}

// Whether one of a range of filters allows the packet.
static __always_inline int scan(__u32 range, const struct packet *packet) {
    struct search search = {.packet = packet, .first = range >> 16};
    bpf_loop(range & 0xffff, compare, &search, 0);
    return search.found;
}

static __always_inline __u32 hash(const struct packet *packet, enum direction direction) {
    const __u32 *words = (const void *)packet;
    __u32 sum = 0x9e3779b9 + direction;
#pragma unroll
    for (int i = 0; i < 9; i++) // addresses and ports
        sum = (sum ^ words[i]) * 0x85ebca6b, sum ^= sum >> 15;
    return (sum ^ packet->protocol) * 0xc2b2ae35 >> 16;
}

// Asks the filters, or what they said of this flow before: the cost must not grow with their number.
static __always_inline int allowed(__u32 slot, const struct vnic *vnic, enum direction direction, const struct packet *packet) {
    // The daemon writes the range before the generation: read in the other order, an old verdict is never kept as new.
    __u32 generation = *(volatile __u32 *)&vnic->generation;
    __u32 range = *(volatile __u32 *)&vnic->filters[direction];
    if ((range & 0xffff) <= SCANNED_MAX)
        return scan(range, packet);
    __u32 row = slot * FLOWS_PER_VNIC + (hash(packet, direction) & (FLOWS_PER_VNIC - 1));
    struct flow *flow = bpf_map_lookup_elem(&flows, &row);
    if (!flow)
        return 0;
    if (flow->generation == generation && flow->direction == direction && flow->protocol == packet->protocol &&
        flow->local_port == packet->local_port && flow->peer_port == packet->peer_port &&
        same_address(&flow->local, &packet->local) && same_address(&flow->peer, &packet->peer) &&
        flow->allowed)
        return flow->allowed - 1;
    int verdict = scan(range, packet);
    // No other program runs on this processor meanwhile: the row is never seen half written.
    flow->allowed = 0;
    flow->local = packet->local;
    flow->peer = packet->peer;
    flow->local_port = packet->local_port;
    flow->peer_port = packet->peer_port;
    flow->protocol = packet->protocol;
    flow->direction = direction;
    flow->generation = generation;
    flow->allowed = 1 + verdict;
    return verdict;
}

// Takes `cost` from a bucket; 0 if there is not enough in it. A bucket so contended that eight attempts fail is empty.
static __always_inline int take(__u64 *arrival, __u64 cost, __u64 tolerance, __u64 now) {
    for (int i = 0; i < 8; i++) {
        __u64 before = *(volatile __u64 *)arrival;
        __u64 start = before > now ? before : now;
        if (start + cost - now > tolerance)
            return 0;
        if (__sync_val_compare_and_swap(arrival, before, start + cost) == before)
            return 1;
    }
    return 0;
}

// Polices by the two limits a direction has. The verdict is a cause, or `verdict` unchanged.
static __always_inline enum cause police(const struct vnic *vnic, enum direction direction, __u64 length, enum cause verdict) {
    __u64 now = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        __u32 row = vnic->limits[direction][i];
        if (!row)
            continue;
        struct limit *limit = bpf_map_lookup_elem(&limits, &row);
        if (!limit)
            continue;
        if (!now)
            now = bpf_ktime_get_ns() << 4;
        if (limit->per_packet && !take(&limit->arrival_packets, limit->per_packet, limit->tolerance_packets, now))
            return RATE_PACKETS;
        __u64 cost = (length + FRAME_OVERHEAD) * limit->per_byte >> 16;
        if (limit->per_byte && !take(&limit->arrival_bits, cost, limit->tolerance_bits, now))
            return RATE_BITS;
    }
    return verdict;
}

static __always_inline void count(__u32 slot, enum direction direction, enum cause cause, __u64 length) {
    __u32 row = (slot * DIRECTIONS + direction) * CAUSES + cause;
    __u64 *counter = bpf_map_lookup_elem(&counters, &row);
    if (counter) {
        counter[0] += 1;
        counter[1] += length;
    }
}

// Ports of TCP and UDP; the headers must be whole, so that nothing behind can read past them.
static __always_inline enum cause read_transport(struct packet *packet, int is_sent, void *data, void *end) {
    __u16 source = 0, destination = 0;
    if (packet->protocol == IPPROTO_TCP) {
        struct tcp *tcp = data;
        if ((void *)(tcp + 1) > end)
            return TOO_SHORT;
        int length = (tcp->offset >> 4) * 4;
        if (length < 20 || data + length > end)
            return TOO_SHORT;
        source = bpf_ntohs(tcp->source), destination = bpf_ntohs(tcp->destination);
    } else if (packet->protocol == IPPROTO_UDP) {
        struct udp *udp = data;
        if ((void *)(udp + 1) > end || bpf_ntohs(udp->length) < 8)
            return TOO_SHORT;
        source = bpf_ntohs(udp->source), destination = bpf_ntohs(udp->destination);
    }
    packet->local_port = is_sent ? source : destination;
    packet->peer_port = is_sent ? destination : source;
    return PASSED_TO_KERNEL;
}

// ICMP is echo and errors; no redirect, no router discovery, no address mask, no timestamp (RFC 792, RFC 1256).
static __always_inline enum cause check_icmp_v4(struct packet *packet, void *data, void *end) {
    struct icmp *icmp = data;
    if ((void *)(icmp + 1) > end)
        return TOO_SHORT;
    packet->is_icmp = 1;
    switch (icmp->type) {
    case 0: case 3: case 8: case 11: case 12:
        return PASSED_TO_KERNEL;
    default:
        return ICMP_TYPE;
    }
}

static __always_inline enum cause read_v4(struct packet *packet, int is_sent, void *data, void *end, __u64 length) {
    struct iphdr *ip = data;
    if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5)
        return TOO_SHORT;
    __u32 total = bpf_ntohs(ip->tot_len);
    if (total < ip->ihl * 4 || total + sizeof(struct ethhdr) > length)
        return TOO_SHORT;
    struct address source = from_v4(ip->saddr), destination = from_v4(ip->daddr);
    packet->local = is_sent ? source : destination;
    packet->peer = is_sent ? destination : source;
    packet->protocol = ip->protocol;
    // A later fragment has no ports to check, and an earlier one may lie about them: overlaps rewrite (RFC 1858).
    if (ip->frag_off & bpf_htons(0x3fff))
        return FRAGMENT;
    // Options steer packets past filters (source routes) and nothing here needs them.
    if (ip->ihl != 5)
        return OPTIONS;
    void *payload = ip + 1;
    return ip->protocol == IPPROTO_ICMP ? check_icmp_v4(packet, payload, end) : read_transport(packet, is_sent, payload, end);
}

// Neighbour solicitations and advertisements (RFC 4861): `subject` is the address they are about, and every link-layer
// address they carry must be `mac`'s. No other option may come along.
static __always_inline enum cause check_neighbour(__u8 type, const __u8 *mac, struct ipv6hdr *ip, void *data, void *end) {
    struct icmp *icmp = data;
    if (ip->hop_limit != 255 || icmp->code != 0)
        return ND_FORGED;
    __u8 *option = data + 24;
    __u32 rest = bpf_ntohs(ip->payload_len) - 24;
    for (int i = 0; i < NEIGHBOUR_OPTIONS_MAX; i++) {
        if (rest == 0)
            return PASSED_TO_KERNEL;
        if (rest < 8 || (void *)(option + 8) > end || option[1] != 1)
            return ND_FORGED;
        __u8 expected = type == 135 ? 1 : 2;
        // A nonce (RFC 3971, used by RFC 7527) says nothing about links.
        if (option[0] != 14 && (option[0] != expected || !same_mac(option + 2, mac)))
            return ND_FORGED;
        option += 8;
        rest -= 8;
    }
    return rest == 0 ? PASSED_TO_KERNEL : ND_FORGED;
}

// No router advertisement, solicitation or redirect, no multicast listener reports: echo, errors, ND for own addresses.
static __always_inline enum cause check_icmp_v6(struct packet *packet, __u32 slot, const __u8 *mac, int is_sent, struct ipv6hdr *ip,
                                                void *end) {
    struct icmp *icmp = (void *)(ip + 1);
    if ((void *)(icmp + 1) > end)
        return TOO_SHORT;
    if ((icmp->type >= 1 && icmp->type <= 4) || icmp->type == 128 || icmp->type == 129) {
        packet->is_icmp = 1;
        return PASSED_TO_KERNEL;
    }
    if (icmp->type != 135 && icmp->type != 136)
        return ICMP_TYPE;
    struct in6_addr *target = (void *)(icmp + 1);
    if ((void *)(target + 1) > end || bpf_ntohs(ip->payload_len) < 24)
        return TOO_SHORT;
    struct address subject = from_v6(target);
    packet->is_neighbour = 1;
    if (!is_sent) {
        // Asked about us, or answered to us: `local` is what must be ours.
        if (icmp->type == 135)
            packet->local = subject;
        return PASSED_TO_KERNEL;
    }
    enum cause cause = check_neighbour(icmp->type, mac, ip, icmp, end);
    if (cause != PASSED_TO_KERNEL)
        return cause;
    if (icmp->type == 136)
        return owns(slot, &subject) ? PASSED_TO_KERNEL : ND_FORGED;
    // Duplicate address detection asks from :: about an own address (RFC 4862).
    if (is_unspecified(&packet->local)) {
        packet->local = subject;
        return owns(slot, &subject) ? PASSED_TO_KERNEL : ND_FORGED;
    }
    packet->peer = subject;
    return PASSED_TO_KERNEL;
}

static __always_inline enum cause read_v6(struct packet *packet, __u32 slot, const __u8 *mac, int is_sent, void *data, void *end,
                                          __u64 length) {
    struct ipv6hdr *ip = data;
    if ((void *)(ip + 1) > end || ip->version != 6)
        return TOO_SHORT;
    if (bpf_ntohs(ip->payload_len) + sizeof(*ip) + sizeof(struct ethhdr) > length)
        return TOO_SHORT;
    struct address source = from_v6(&ip->saddr), destination = from_v6(&ip->daddr);
    packet->local = is_sent ? source : destination;
    packet->peer = is_sent ? destination : source;
    packet->protocol = ip->nexthdr;
    switch (ip->nexthdr) {
    case IPPROTO_TCP: case IPPROTO_UDP:
        return read_transport(packet, is_sent, ip + 1, end);
    case IPPROTO_ICMPV6:
        return check_icmp_v6(packet, slot, mac, is_sent, ip, end);
    case IPPROTO_FRAGMENT:
        return FRAGMENT;
    // A chain can be made longer than any program looks: none passes (RFC 7112 asks no more of a filter).
    case IPPROTO_HOPOPTS: case IPPROTO_ROUTING: case IPPROTO_DSTOPTS: case IPPROTO_AH: case IPPROTO_ESP: case IPPROTO_MH:
    case 139: case 140: case 253: case 254:
        return EXTENSION_HEADER;
    default:
        return PASSED_TO_KERNEL;
    }
}

static __always_inline enum cause read_arp(struct packet *packet, __u32 slot, const __u8 *mac, int is_sent, void *data, void *end) {
    struct arp_ipv4 *arp = data;
    if ((void *)(arp + 1) > end)
        return TOO_SHORT;
    if (arp->hardware != bpf_htons(1) || arp->protocol != bpf_htons(ETH_P_IP) || arp->hardware_length != 6 ||
        arp->protocol_length != 4)
        return ARP_FORGED;
    __u16 operation = bpf_ntohs(arp->operation);
    if (operation != ARP_REQUEST && operation != ARP_REPLY)
        return ARP_FORGED;
    struct address sender = from_v4(arp->sender_ip), target = from_v4(arp->target_ip);
    packet->is_neighbour = 1;
    packet->local = is_sent ? sender : target;
    packet->peer = is_sent ? target : sender;
    if (!is_sent)
        return PASSED_TO_KERNEL;
    if (!same_mac(arp->sender_mac, mac))
        return ARP_FORGED;
    // A probe asks from 0.0.0.0 about an own address (RFC 5227).
    if (arp->sender_ip == 0 && operation == ARP_REQUEST)
        packet->local = target;
    return owns(slot, &packet->local) ? PASSED_TO_KERNEL : ARP_FORGED;
}

// Everything about a frame that does not depend on the tables of filters.
static __always_inline enum cause read(struct packet *packet, __u32 slot, const struct vnic *vnic, int is_sent, void *data, void *end,
                                       __u64 length) {
    struct ethhdr *ethernet = data;
    if ((void *)(ethernet + 1) > end)
        return TOO_SHORT;
    if (is_sent && !same_mac(ethernet->h_source, vnic->mac))
        return SOURCE_MAC;
    switch (bpf_ntohs(ethernet->h_proto)) {
    case ETH_P_IP:
        return read_v4(packet, is_sent, ethernet + 1, end, length);
    case ETH_P_IPV6:
        return read_v6(packet, slot, vnic->mac, is_sent, ethernet + 1, end, length);
    case ETH_P_ARP:
        return read_arp(packet, slot, vnic->mac, is_sent, ethernet + 1, end);
    case ETH_P_8021Q: case ETHERTYPE_SERVICE_TAG:
        return VLAN_TAG;
    default:
        return ETHERTYPE;
    }
}

// Whom a frame that may be sent is for: another VNIC, whose number is put into `to`, or the kernel.
static __always_inline enum cause route(const struct vnic *vnic, __u32 slot, const struct packet *packet, struct ethhdr *ethernet, __u32 *to) {
    __u32 *owner = bpf_map_lookup_elem(&owners, &packet->peer);
    if (owner && *owner != slot) {
        __u32 other = *owner;
        struct vnic *neighbour = bpf_map_lookup_elem(&vnics, &other);
        // Not by way of the kernel either, which may forward.
        if (!neighbour || !(vnic->flags & neighbour->flags & FLAG_SWITCH))
            return NOT_SWITCHED;
        if (same_mac(ethernet->h_dest, neighbour->mac) || (packet->is_neighbour && ethernet->h_dest[0] & 1)) {
            *to = other;
            return SWITCHED;
        }
        return same_mac(ethernet->h_dest, vnic->host_mac) ? PASSED_TO_KERNEL : DESTINATION_MAC;
    }
    if (same_mac(ethernet->h_dest, vnic->host_mac))
        return PASSED_TO_KERNEL;
    // Broadcast and multicast reach the kernel of this machine and no further.
    return ethernet->h_dest[0] & 1 ? PASSED_TO_KERNEL : DESTINATION_MAC;
}

static __always_inline int gate_frame(struct xdp_md *context, __u64 length) {
    void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    __u32 interface = context->ingress_ifindex;
    __u32 *found = bpf_map_lookup_elem(&gates, &interface);
    if (!found)
        return XDP_DROP;
    __u32 slot = *found;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!vnic)
        return XDP_DROP;
    struct packet packet = {};
    __u32 to = 0;
    enum cause cause = read(&packet, slot, vnic, 1, data, end, length);
    if (cause == PASSED_TO_KERNEL && !packet.is_neighbour) {
        if (!owns(slot, &packet.local))
            cause = SOURCE_ADDRESS;
        else if (packet.is_icmp)
            cause = vnic->flags & FLAG_ICMP ? PASSED_TO_KERNEL : NO_FILTER;
        else if (!allowed(slot, vnic, TRANSMIT, &packet))
            cause = NO_FILTER;
    } else if (cause == PASSED_TO_KERNEL && !owns(slot, &packet.local)) {
        cause = ND_FORGED;
    }
    if (cause == PASSED_TO_KERNEL && data + sizeof(struct ethhdr) <= end)
        cause = route(vnic, slot, &packet, data, &to);
    if (cause == PASSED_TO_KERNEL || cause == SWITCHED)
        cause = police(vnic, TRANSMIT, length, cause);
    count(slot, TRANSMIT, cause, length);
    if (cause == SWITCHED)
        return bpf_redirect_map(&ports, to, 0);
    return cause == PASSED_TO_KERNEL || vnic->flags & FLAG_UNFENCED ? XDP_PASS : XDP_DROP;
}

static __always_inline int deliver_frame(struct xdp_md *context, __u64 length) {
    void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    __u32 interface = context->ingress_ifindex;
    __u32 *found = bpf_map_lookup_elem(&ends, &interface);
    if (!found)
        return XDP_DROP;
    __u32 slot = *found;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!vnic)
        return XDP_DROP;
    struct packet packet = {};
    enum cause cause = read(&packet, slot, vnic, 0, data, end, length);
    int unfiltered = (vnic->filters[RECEIVE] & 0xffff) == 0;
    // Without receive filters everything to an own address is the VNIC's: fragments and options too.
    if (unfiltered && (cause == FRAGMENT || cause == OPTIONS || cause == ICMP_TYPE || cause == EXTENSION_HEADER))
        cause = PASSED_TO_KERNEL;
    if (cause == PASSED_TO_KERNEL) {
        if (!owns(slot, &packet.local))
            cause = NOT_ADDRESSED;
        else if (!unfiltered && !packet.is_neighbour && !packet.is_icmp && !allowed(slot, vnic, RECEIVE, &packet))
            cause = NO_FILTER;
    }
    if (cause == PASSED_TO_KERNEL)
        cause = police(vnic, RECEIVE, length, DELIVERED);
    int action = XDP_DROP;
    if (cause == DELIVERED) {
        __u32 queue = context->rx_queue_index;
        action = queue < QUEUES_MAX ? bpf_redirect_map(&sockets, slot * QUEUES_MAX + queue, XDP_DROP) : XDP_DROP;
        if (action != XDP_REDIRECT)
            cause = NO_QUEUE;
    }
    count(slot, RECEIVE, cause, length);
    return action;
}

// veth knows packets of several buffers; their headers are in the first.
SEC("xdp.frags")
int gate(struct xdp_md *context) {
    return gate_frame(context, bpf_xdp_get_buff_len(context));
}

SEC("xdp.frags")
int deliver(struct xdp_md *context) {
    return deliver_frame(context, bpf_xdp_get_buff_len(context));
}

char _license[] SEC("license") = "Apache-2.0";
