// SPDX-License-Identifier: Apache-2.0
// The fence's tables and what is in them. Written by the daemon only, but for buckets, cached verdicts and counters.
// Layouts: twin of src/fence/tables.rs and src/fence/rows.rs.
#pragma once
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define VNICS_MAX 256
#define QUEUES_MAX 16
#define FILTERS_MAX 16384 // of all VNICs
#define SCANNED_MAX 4     // so few filters are compared faster than the flow is looked up
#define FLOWS_PER_VNIC 256
#define DATAGRAMS_PER_VNIC 32 // whose fragments are under way, for each of `followers`
#define QUESTIONS_PER_VNIC 16
#define FRAGMENTS_NS 1000000000ull // from one of them to the next
#define LIMITS_MAX 1024
#define OWNERS_MAX 4096
#define ASKED_PER_VNIC 64
#define GATEWAYS_MAX 64
#define FRAME_OVERHEAD 24 // preamble, frame check sequence, gap: what a frame costs a wire beyond its bytes
#define KERNEL 0xffffffff // owner of the kernel's own addresses

#define UNTAGGED 4096    // in place of a VLAN's number
#define NOT_IP 0x100     // in place of a protocol's number
#define SPREAD_QUEUE 255 // in place of a queue's number: by the flow's hash

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
    TO_UPLINK,
    DIVERTED,
    MAPPED_ADDRESS,
    ICMP_QUOTE,
    OFFLOAD,
    CAUSES
};

enum direction { TRANSMIT, RECEIVE, DIRECTIONS };

// Who follows fragments, each with rows of its own, for what it sees: the gate, the VNIC's end, what lies before that.
enum follower { AT_GATE, AT_END, AT_WIRE, FOLLOWERS };

#define FLAG_ICMP 1     // may send and receive ICMP echo and errors
#define FLAG_SWITCH 2   // may reach other VNICs
#define FLAG_UNFENCED 4 // for tests that show what the fence is good for: everything passes
#define FLAG_FILTERED 8 // receives what its filters cover; else everything that is IP and untagged
#define FLAG_UPLINK 16  // may reach, and be reached from, the uplink
#define FLAG_SHARED 32  // its addresses are the kernel's too: on the wire it goes by the uplink's Ethernet address
#define FLAG_QUEUE 64   // has queues of a NIC's: nothing but `own_queue` sees its packets
#define FLAG_PEERS 128  // its rule names peers: it asks for these and for next hops only, and sends ICMP to these only

struct vnic {
    __u8 mac[6];       // the application's end
    __u8 host_mac[6];  // the switch's end
    __u32 flags;
    __u32 filters[DIRECTIONS];    // first << 16 | count, swapped as one word
    __u32 generation;             // of filters: what was cached under another is void
    __u32 limits[DIRECTIONS][2];  // rows of `limits`: the VNIC's own, its owner's; 0: none
    __u8 spread;                  // queues that share what no filter gives to one, from 0
    __u8 reserved[3];
};

struct address {
    __u8 bytes[16]; // IPv4 as ::ffff:a.b.c.d
} __attribute__((aligned(8)));

// Numbers in host order, the high half first: from `first` to `last`, and with `value` under `mask`.
struct addresses {
    __u64 first[2], last[2], mask[2], value[2];
};

#define FILTER_GRANTED 1  // to a VNIC that has not the address
#define FILTER_DIVERTED 2 // to another VNIC, `target`
#define FILTER_ASKED 4    // of questions for neighbours alone

// A convex sub-volume of header space. `local` is the VNIC's side. Ranges are inclusive, in host order.
struct filter {
    struct addresses local, peer;
    __u64 mac_first, mac_last, mac_mask, mac_value; // the peer's
    __u16 local_first, local_last, peer_first, peer_last;
    __u16 protocol_first, protocol_last, type_first, type_last;
    __u16 vlan_first, vlan_last, inner_first, inner_last;
    __u8 queue; // to be received by
    __u8 flags;
    __u16 target;
    __u32 reserved;
};

// What the filters are asked about a packet, from the VNIC's side, and what a verdict is remembered by.
struct key {
    struct address local, peer;
    __u16 local_port, peer_port;
    __u16 protocol, type;
    __u16 vlan, inner_vlan;
    __u8 mac[6]; // the peer's
    __u8 direction;
    __u8 is_link_only; // ARP, ND, ICMP: no service to ask about; LINK_…
    __u32 reserved;
} __attribute__((aligned(8)));

// What a filter must cover of a packet that has no service.
#define LINK_FREE 1     // VLAN and Ethernet address
#define LINK_ICMP 2     // and the peer
#define LINK_QUESTION 3 // and the neighbour that is asked for

#define FOUND 0x80000000u // in a verdict, with the filter's queue, flags << 8, target << 16
#define KNOWN 0x40000000u // in a remembered verdict

struct flow {
    struct key key;
    __u32 generation;
    __u32 verdict; // written last
};

// A datagram in fragments: what its first one's headers said, and where the next one has to begin.
struct datagram {
    struct key key;
    __u64 expires;
    __u32 identification;
    __u32 next; // 0: nothing more is to come
    __u32 is_held; // a processor is at it
    __u32 reserved;
};

// A rate as virtual scheduling (GCRA, ITU-T I.371): `arrival` is when the bucket would be full again. Times in 1/16 ns.
struct limit {
    __u64 per_byte;   // 16.16 fixed point; 0: unlimited
    __u64 per_packet; // 0: unlimited
    __u64 tolerance_bits, tolerance_packets;
    __u64 arrival_bits, arrival_packets;
};

struct uplink {
    __u8 mac[6];
    __u8 reserved[2];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH); // switch end's interface → VNIC
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, VNICS_MAX);
} gates SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH); // interface of a VNIC's end, or of a further queue's → VNIC × QUEUES_MAX + queue
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, VNICS_MAX * QUEUES_MAX);
} ends SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct vnic);
    __uint(max_entries, VNICS_MAX);
} vnics SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH); // address → VNIC, or KERNEL
    __type(key, struct address);
    __type(value, __u32);
    __uint(max_entries, OWNERS_MAX);
} owners SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH); // Ethernet address → VNIC
    __type(key, __u64);
    __type(value, __u32);
    __uint(max_entries, VNICS_MAX);
} cards SEC(".maps");

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
    __uint(type, BPF_MAP_TYPE_ARRAY); // direct-mapped, a share for each VNIC and follower
    __type(key, __u32);
    __type(value, struct datagram);
    __uint(max_entries, VNICS_MAX * FOLLOWERS * DATAGRAMS_PER_VNIC);
} datagrams SEC(".maps");

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
    __uint(type, BPF_MAP_TYPE_ARRAY); // VNIC → its switch end, for classifiers, which may not read `ports`
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, VNICS_MAX);
} doors SEC(".maps");

// A VNIC's further queues are veth pairs of their own, for a socket gets frames of its own device's queue only:
//
//     switch's end ═══ VNIC's end: queue 0      `deliver` sends what is for queue 1 to its inlet, and `relay` sends
//            inlet ═══ queue 1                  what comes from queue 1 to the VNIC's end, out of which it goes
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP); // VNIC × QUEUES_MAX → the VNIC's end; + queue → the queue's inlet
    __uint(key_size, 4);
    __uint(value_size, 8);
    __uint(max_entries, VNICS_MAX * QUEUES_MAX);
} inlets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP); // VNIC × QUEUES_MAX + queue → the application's socket
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, VNICS_MAX * QUEUES_MAX);
} sockets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH); // a NIC's interface << 32 | queue → VNIC × QUEUES_MAX + queue
    __type(key, __u64);
    __type(value, __u32);
    __uint(max_entries, VNICS_MAX * QUEUES_MAX);
} nic_queues SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP); // 0 → the uplink
    __uint(key_size, 4);
    __uint(value_size, 8);
    __uint(max_entries, 1);
} uplinks SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct uplink);
    __uint(max_entries, 1);
} uplink_row SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY); // direct-mapped, a share for each VNIC: a neighbour's hash << QUEUES_MAX | further queues that asked for it
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, VNICS_MAX * QUESTIONS_PER_VNIC);
} questions SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY); // direct-mapped, a share for each VNIC: a neighbour that it asked for by a shared address; the answer is its
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, VNICS_MAX * ASKED_PER_VNIC);
} asked SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH); // next hops on the uplink: every VNIC there may ask for them
    __type(key, struct address);
    __type(value, __u32);
    __uint(max_entries, GATEWAYS_MAX);
} gateways SEC(".maps");
