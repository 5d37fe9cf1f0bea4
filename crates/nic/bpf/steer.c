// SPDX-License-Identifier: Apache-2.0
// Steers what this server owns into its AF_XDP sockets and passes everything else to the kernel.
//
// An owned address is either whole (its ARP or ND, ICMP, every protocol) or shared with the kernel, of which only ranges
// of TCP or UDP ports are taken. Rules live in two hash maps, so user space changes them while packets flow. A packet
// for a queue without a socket goes to the kernel. A forwarder takes every frame instead. Layouts: twin of src/af_xdp/program.rs.
//
// Rules hold in one VLAN (802.1Q): that of `settings`, or the untagged frames. A tag is seen only in the frame's bytes,
// not where a device or a veth peer keeps it beside them. What is for every node of the link (router advertisements,
// queries for multicast listeners) is the kernel's as much as ours: it gets the frame, and we get a copy if we want one.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ADDRESSES_MAX 64
#define SERVICES_MAX 8
#define QUEUES_MAX 64
#define COPY_BYTES 1016
#define COPIES_BYTES 65536
#define VLAN_MASK 0x0fff // the rest of a tag is priority (802.1Q section 9.6)

struct service {
    __u16 first_port; // host order, inclusive
    __u16 last_port;
    __u8 protocol; // IPPROTO_TCP, IPPROTO_UDP; 0: unused, ends the list
    __u8 reserved[3];
};

struct ownership {
    __u32 whole; // 1: everything for this address
    struct service services[SERVICES_MAX];
};

enum verdict {
    PASSED,
    TAKEN_ARP,
    TAKEN_ND,
    TAKEN_ADDRESS,
    TAKEN_SERVICE,
    TAKEN_ERROR,
    NO_SOCKET,
    MALFORMED,
    TAKEN_EVERYTHING,
    COPIED,
    COPY_LOST,
    VERDICTS
};

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, QUEUES_MAX);
} sockets SEC(".maps");

struct settings {
    __u32 everything; // 1: every frame is taken, whatever it is (a forwarder's rule)
    __u32 vlan;       // identifier of the VLAN the rules hold in; 0: untagged frames, and those with only a priority
    __u32 copies;     // 1: what is for all nodes is copied to us
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct settings);
    __uint(max_entries, 1);
} settings SEC(".maps");

struct copy {
    __u32 length;
    __u32 reserved;
    __u8 bytes[COPY_BYTES];
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, COPIES_BYTES);
} copies SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __u32); // network order
    __type(value, struct ownership);
    __uint(max_entries, ADDRESSES_MAX);
} addresses_v4 SEC(".maps");

struct address_v6 {
    __u8 bytes[16];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct address_v6);
    __type(value, struct ownership);
    __uint(max_entries, ADDRESSES_MAX);
} addresses_v6 SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, VERDICTS);
} verdicts SEC(".maps");

struct arp_ipv4 { // RFC 826 for Ethernet and IPv4
    __be16 hardware, protocol;
    __u8 hardware_length, protocol_length;
    __be16 operation;
    __u8 sender_mac[6], sender_ip[4], target_mac[6], target_ip[4];
} __attribute__((packed));

struct ports {
    __be16 source, destination;
};

struct tag { // IEEE 802.1Q, after the Ethernet addresses and 0x8100
    __be16 control, protocol;
};

static __always_inline int serves(const struct ownership *own, __u8 protocol, __u16 port) {
#pragma unroll
    for (int i = 0; i < SERVICES_MAX; i++) {
        const struct service *service = &own->services[i];
        if (service->protocol == 0)
            return 0;
        if (service->protocol == protocol && service->first_port <= port && port <= service->last_port)
            return 1;
    }
    return 0;
}

// Whether the packet quoted by an ICMP error about `own` was one of ours: its source port decides.
static __always_inline int quoted_is_ours(const struct ownership *own, __u8 protocol, struct ports *ports, void *end) {
    if ((void *)(ports + 1) > end)
        return 0;
    return serves(own, protocol, bpf_ntohs(ports->source));
}

static __always_inline enum verdict judge_arp(void *data, void *end) {
    struct arp_ipv4 *arp = data;
    if ((void *)(arp + 1) > end)
        return MALFORMED;
    if (arp->protocol != bpf_htons(ETH_P_IP) || arp->hardware_length != 6 || arp->protocol_length != 4)
        return PASSED;
    __u32 target, sender;
    __builtin_memcpy(&target, arp->target_ip, 4);
    struct ownership *own = bpf_map_lookup_elem(&addresses_v4, &target);
    if (own && own->whole)
        return TAKEN_ARP;
    // Whoever says that our address is his: an answer to a probe names no target (RFC 5227).
    __builtin_memcpy(&sender, arp->sender_ip, 4);
    own = bpf_map_lookup_elem(&addresses_v4, &sender);
    return own && own->whole ? TAKEN_ARP : PASSED;
}

static __always_inline enum verdict judge_icmp_v4(const struct ownership *own, void *data, void *end) {
    __u8 *type = data;
    if (data + 8 + sizeof(struct iphdr) > end)
        return PASSED;
    if (*type != 3 && *type != 11 && *type != 12) // unreachable, time exceeded, parameter problem (RFC 792)
        return PASSED;
    struct iphdr *quoted = data + 8;
    if (quoted->version != 4 || quoted->ihl < 5)
        return PASSED;
    void *ports = (void *)quoted + quoted->ihl * 4;
    return quoted_is_ours(own, quoted->protocol, ports, end) ? TAKEN_ERROR : PASSED;
}

static __always_inline enum verdict judge_v4(void *data, void *end) {
    struct iphdr *ip = data;
    if ((void *)(ip + 1) > end)
        return MALFORMED;
    __u32 destination = ip->daddr;
    struct ownership *own = bpf_map_lookup_elem(&addresses_v4, &destination);
    if (!own)
        return PASSED;
    if (own->whole)
        return TAKEN_ADDRESS;
    // A fragment of a shared address can't be attributed: the kernel's (we never send what must be fragmented).
    if (ip->ihl < 5 || (ip->frag_off & bpf_htons(0x3fff)))
        return PASSED;
    struct ports *ports = data + ip->ihl * 4;
    if (ip->protocol == IPPROTO_ICMP)
        return judge_icmp_v4(own, ports, end);
    if ((void *)(ports + 1) > end)
        return MALFORMED;
    return serves(own, ip->protocol, bpf_ntohs(ports->destination)) ? TAKEN_SERVICE : PASSED;
}

static __always_inline enum verdict judge_icmp_v6(const struct ownership *own, void *data, void *end) {
    __u8 *type = data;
    struct ipv6hdr *quoted = data + 8;
    if ((void *)(quoted + 1) > end || *type < 1 || *type > 4) // RFC 4443 errors
        return PASSED;
    return quoted_is_ours(own, quoted->nexthdr, (void *)(quoted + 1), end) ? TAKEN_ERROR : PASSED;
}

// Neighbour solicitations, and the advertisements that answer duplicate address detection, come by multicast (RFC 4861):
// the address they are about decides.
static __always_inline enum verdict judge_multicast_v6(__u8 next_header, __u8 *payload, void *end) {
    if (next_header == IPPROTO_HOPOPTS) {
        // A query for multicast listeners (RFC 2710, RFC 3810) follows a router alert, 8 bytes.
        if ((void *)(payload + 8 + 24) > end || payload[0] != IPPROTO_ICMPV6 || payload[1] != 0)
            return PASSED;
        return payload[8] == 130 ? COPIED : PASSED;
    }
    if (next_header != IPPROTO_ICMPV6 || (void *)(payload + 8) > end)
        return PASSED;
    if (payload[0] == 134) // router advertisement
        return COPIED;
    if ((payload[0] != 135 && payload[0] != 136) || (void *)(payload + 24) > end)
        return PASSED;
    struct address_v6 target;
    __builtin_memcpy(&target, payload + 8, 16);
    struct ownership *own = bpf_map_lookup_elem(&addresses_v6, &target);
    return own && own->whole ? TAKEN_ND : PASSED;
}

static __always_inline enum verdict judge_v6(void *data, void *end) {
    struct ipv6hdr *ip = data;
    if ((void *)(ip + 1) > end)
        return MALFORMED;
    struct address_v6 address;
    __builtin_memcpy(&address, &ip->daddr, 16);
    __u8 *payload = (void *)(ip + 1);
    if (address.bytes[0] == 0xff)
        return judge_multicast_v6(ip->nexthdr, payload, end);
    struct ownership *own = bpf_map_lookup_elem(&addresses_v6, &address);
    if (!own)
        return PASSED;
    if (own->whole)
        return TAKEN_ADDRESS;
    if (ip->nexthdr == IPPROTO_ICMPV6)
        return judge_icmp_v6(own, payload, end);
    struct ports *ports = (void *)payload;
    if ((void *)(ports + 1) > end)
        return MALFORMED;
    return serves(own, ip->nexthdr, bpf_ntohs(ports->destination)) ? TAKEN_SERVICE : PASSED;
}

// Hands a copy to user space; the frame itself goes on to the kernel.
static __always_inline enum verdict copy_frame(struct xdp_md *context) {
    __u64 length = context->data_end - context->data;
    if (length > COPY_BYTES)
        return COPY_LOST;
    struct copy *copy = bpf_ringbuf_reserve(&copies, sizeof(*copy), 0);
    if (!copy)
        return COPY_LOST;
    copy->length = length;
    copy->reserved = 0;
    // The bound again, where the verifier sees it: a length of at least 1 and at most COPY_BYTES.
    if (length - 1 >= COPY_BYTES || bpf_xdp_load_bytes(context, 0, copy->bytes, length) < 0) {
        bpf_ringbuf_discard(copy, 0);
        return COPY_LOST;
    }
    bpf_ringbuf_submit(copy, BPF_RB_NO_WAKEUP);
    return COPIED;
}

static __always_inline enum verdict judge(__be16 protocol, void *network, void *end) {
    if (protocol == bpf_htons(ETH_P_IP))
        return judge_v4(network, end);
    if (protocol == bpf_htons(ETH_P_IPV6))
        return judge_v6(network, end);
    if (protocol == bpf_htons(ETH_P_ARP))
        return judge_arp(network, end);
    return PASSED;
}

// Frames of our VLAN, by what is behind their tag.
static __always_inline enum verdict judge_frame(const struct settings *set, void *data, void *end) {
    struct ethhdr *ethernet = data;
    if ((void *)(ethernet + 1) > end)
        return MALFORMED;
    if (ethernet->h_proto != bpf_htons(ETH_P_8021Q))
        return set->vlan == 0 ? judge(ethernet->h_proto, ethernet + 1, end) : PASSED;
    struct tag *tag = (void *)(ethernet + 1);
    if ((void *)(tag + 1) > end)
        return MALFORMED;
    if ((bpf_ntohs(tag->control) & VLAN_MASK) != set->vlan)
        return PASSED;
    return judge(tag->protocol, tag + 1, end);
}

static __always_inline int steer(struct xdp_md *context) {
    void *data = (void *)(long)context->data;
    void *end = (void *)(long)context->data_end;
    int action = XDP_PASS;
    __u32 first = 0;
    struct settings *set = bpf_map_lookup_elem(&settings, &first);
    if (!set)
        return action;

    enum verdict verdict = set->everything ? TAKEN_EVERYTHING : judge_frame(set, data, end);
    if (verdict == COPIED) {
        verdict = set->copies ? copy_frame(context) : PASSED;
    } else if (verdict != PASSED && verdict != MALFORMED) {
        action = bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);
        if (action != XDP_REDIRECT)
            verdict = NO_SOCKET;
    }
    __u32 slot = verdict;
    __u64 *count = bpf_map_lookup_elem(&verdicts, &slot);
    if (count)
        *count += 1;
    return action;
}

SEC("xdp")
int steer_linear(struct xdp_md *context) {
    return steer(context);
}

SEC("xdp.frags")
int steer_frags(struct xdp_md *context) {
    return steer(context);
}

char _license[] SEC("license") = "Apache-2.0";
