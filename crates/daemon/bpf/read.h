// SPDX-License-Identifier: Apache-2.0
// Reads a frame's headers, and judges what does not depend on the tables of filters.
#pragma once
#include "fence.h"

#define NEIGHBOUR_OPTIONS_MAX 4
#define ETHERTYPE_SERVICE_TAG 0x88a8
#define ARP_REQUEST 1
#define ARP_REPLY 2

struct tag { // IEEE 802.1Q
    __be16 control, type;
};

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

// Of a fragment: RFC 791 section 3.1, RFC 8200 section 4.5.
struct piece {
    __u32 identification;
    __u32 offset, length; // of its payload, bytes
    __u32 more;           // it is not the last
    __u32 is_sound;       // it may pass, if what went before it did
};

struct fragment_header { // RFC 8200 section 4.5
    __u8 next, reserved;
    __be16 place;
    __be32 identification;
};

struct packet {
    struct key key;
    struct piece piece;
    __u8 is_neighbour; // ARP or ND, checked already, and `peer` says whom it is for
    __u8 is_answer;    // of these one that answers
    __u8 is_icmp;
    __u8 is_error; // of these one that quotes a packet
    __u8 link_bytes;   // of the Ethernet header with its tags
    __u8 transport_bytes; // of the header of TCP or UDP, where it is in the packet
};

static __always_inline int same_mac(const __u8 *one, const __u8 *other) {
    const __u16 *a = (const void *)one, *b = (const void *)other;
    return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]));
}

static __always_inline __u64 mac_bits(const __u8 *mac) {
    return (__u64)mac[0] << 40 | (__u64)mac[1] << 32 | (__u64)mac[2] << 24 | (__u64)mac[3] << 16 | (__u64)mac[4] << 8 | mac[5];
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
    const __u64 *words = (const void *)address;
    return !(words[0] | words[1]);
}

// An IPv4 address in an IPv6 packet (RFC 4291 section 2.5.5.2): it is on no wire, and in the tables it would be the IPv4 address.
static __always_inline int is_mapped(const struct address *address) {
    const __u32 *words = (const void *)address;
    return !(words[0] | words[1]) && words[2] == bpf_htonl(0xffff);
}

static __always_inline int same_address(const struct address *one, const struct address *other) {
    const __u64 *a = (const void *)one, *b = (const void *)other;
    return !((a[0] ^ b[0]) | (a[1] ^ b[1]));
}

// A chain of these can be made longer than any program looks: none passes (RFC 7112 asks no more of a filter).
static __always_inline int is_extension(__u8 next) {
    switch (next) {
    case IPPROTO_HOPOPTS: case IPPROTO_ROUTING: case IPPROTO_DSTOPTS: case IPPROTO_AH: case IPPROTO_ESP: case IPPROTO_MH:
    case 139: case 140: case 253: case 254:
        return 1;
    default:
        return 0;
    }
}

static __always_inline int owns(__u32 slot, const struct address *address) {
    __u32 *owner = bpf_map_lookup_elem(&owners, address);
    return owner && *owner == slot;
}

// Ports of TCP and UDP; the headers must be whole, so that nothing behind can read past them.
static __always_inline enum cause read_transport(struct packet *packet, int is_sent, void *data, void *end) {
    __u16 source = 0, destination = 0;
    if (packet->key.protocol == IPPROTO_TCP) {
        struct tcp *tcp = data;
        if ((void *)(tcp + 1) > end)
            return TOO_SHORT;
        int length = (tcp->offset >> 4) * 4;
        if (length < 20 || data + length > end)
            return TOO_SHORT;
        source = bpf_ntohs(tcp->source), destination = bpf_ntohs(tcp->destination);
        packet->transport_bytes = length;
    } else if (packet->key.protocol == IPPROTO_UDP) {
        struct udp *udp = data;
        if ((void *)(udp + 1) > end || bpf_ntohs(udp->length) < 8)
            return TOO_SHORT;
        source = bpf_ntohs(udp->source), destination = bpf_ntohs(udp->destination);
        packet->transport_bytes = sizeof(*udp);
    }
    packet->key.local_port = is_sent ? source : destination;
    packet->key.peer_port = is_sent ? destination : source;
    return PASSED_TO_KERNEL;
}

// ICMP is echo and errors; no redirect, no router discovery, no address mask, no timestamp (RFC 792, RFC 1256).
static __always_inline enum cause check_icmp_v4(struct packet *packet, void *data, void *end) {
    struct icmp *icmp = data;
    if ((void *)(icmp + 1) > end)
        return TOO_SHORT;
    packet->is_icmp = 1;
    switch (icmp->type) {
    case 3: case 11: case 12:
        packet->is_error = 1;
        return PASSED_TO_KERNEL;
    case 0: case 8:
        return PASSED_TO_KERNEL;
    default:
        return ICMP_TYPE;
    }
}

// A fragment. A later one has no ports: `follow` tells whose it is. Only what hosts send in fragments
// is looked at, and the first must hold the whole header that is judged, so that nothing of it is left for a later one to write
// (RFC 1858, RFC 3128). Neighbour discovery is never in fragments (RFC 6980).
static __always_inline enum cause read_fragment(struct packet *packet, int is_sent, int is_v4, void *payload, void *end) {
    struct piece *piece = &packet->piece;
    if ((piece->more && piece->length & 7) || piece->offset + piece->length > 0xffff)
        return FRAGMENT;
    struct icmp *icmp = payload;
    if (piece->offset) {
        piece->is_sound = piece->length > 0;
    } else if (piece->length >= 8 && (void *)(icmp + 1) <= end) {
        if (packet->key.protocol == IPPROTO_UDP)
            piece->is_sound = read_transport(packet, is_sent, payload, end) == PASSED_TO_KERNEL;
        else if (packet->key.protocol == (is_v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
            piece->is_sound = packet->is_icmp = icmp->type == (is_v4 ? 8 : 128) || icmp->type == (is_v4 ? 0 : 129);
    }
    return FRAGMENT;
}

static __always_inline enum cause read_v4(struct packet *packet, int is_sent, void *data, void *end, __u64 length) {
    struct iphdr *ip = data;
    if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5)
        return TOO_SHORT;
    __u32 total = bpf_ntohs(ip->tot_len);
    if (total < ip->ihl * 4 || total + packet->link_bytes > length)
        return TOO_SHORT;
    struct address source = from_v4(ip->saddr), destination = from_v4(ip->daddr);
    packet->key.local = is_sent ? source : destination;
    packet->key.peer = is_sent ? destination : source;
    packet->key.protocol = ip->protocol;
    // Options steer packets past filters (source routes) and nothing here needs them.
    if (ip->ihl != 5)
        return OPTIONS;
    void *payload = ip + 1;
    __u32 place = bpf_ntohs(ip->frag_off);
    if (place & 0x3fff) {
        packet->piece.identification = bpf_ntohs(ip->id);
        packet->piece.offset = (place & 0x1fff) * 8;
        packet->piece.length = total - sizeof(*ip);
        packet->piece.more = place & 0x2000;
        return read_fragment(packet, is_sent, 1, payload, end);
    }
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
        packet->is_error = icmp->type <= 4;
        return PASSED_TO_KERNEL;
    }
    if (icmp->type != 135 && icmp->type != 136)
        return ICMP_TYPE;
    struct in6_addr *target = (void *)(icmp + 1);
    if ((void *)(target + 1) > end || bpf_ntohs(ip->payload_len) < 24)
        return TOO_SHORT;
    struct address subject = from_v6(target);
    packet->is_neighbour = 1;
    packet->is_answer = icmp->type == 136;
    if (is_mapped(&subject))
        return ND_FORGED;
    if (!is_sent) {
        // Asked about us, or answered to us: `local` is what must be ours.
        if (icmp->type == 135)
            packet->key.local = subject;
        return PASSED_TO_KERNEL;
    }
    enum cause cause = check_neighbour(icmp->type, mac, ip, icmp, end);
    if (cause != PASSED_TO_KERNEL)
        return cause;
    if (icmp->type == 136)
        return owns(slot, &subject) ? PASSED_TO_KERNEL : ND_FORGED;
    // A question is for its subject or for all on the link (RFC 4861 section 7.2.2), not a way to anybody else.
    if (!same_address(&packet->key.peer, &subject) && ip->daddr.s6_addr16[0] != bpf_htons(0xff02))
        return ND_FORGED;
    // Duplicate address detection asks from :: about an own address (RFC 4862).
    if (is_unspecified(&packet->key.local)) {
        packet->key.local = subject;
        return owns(slot, &subject) ? PASSED_TO_KERNEL : ND_FORGED;
    }
    packet->key.peer = subject;
    return PASSED_TO_KERNEL;
}

static __always_inline enum cause read_fragment_v6(struct packet *packet, int is_sent, struct ipv6hdr *ip, void *end) {
    struct fragment_header *header = (void *)(ip + 1);
    __u32 length = bpf_ntohs(ip->payload_len);
    if ((void *)(header + 1) > end || length < sizeof(*header))
        return FRAGMENT;
    __u32 place = bpf_ntohs(header->place);
    packet->key.protocol = header->next;
    packet->piece.identification = bpf_ntohl(header->identification);
    packet->piece.offset = place & 0xfff8;
    packet->piece.length = length - sizeof(*header);
    packet->piece.more = place & 1;
    return read_fragment(packet, is_sent, 0, header + 1, end);
}

static __always_inline enum cause read_v6(struct packet *packet, __u32 slot, const __u8 *mac, int is_sent, void *data, void *end,
                                          __u64 length) {
    struct ipv6hdr *ip = data;
    if ((void *)(ip + 1) > end || ip->version != 6)
        return TOO_SHORT;
    if (bpf_ntohs(ip->payload_len) + sizeof(*ip) + packet->link_bytes > length)
        return TOO_SHORT;
    struct address source = from_v6(&ip->saddr), destination = from_v6(&ip->daddr);
    packet->key.local = is_sent ? source : destination;
    packet->key.peer = is_sent ? destination : source;
    packet->key.protocol = ip->nexthdr;
    if (is_mapped(&source) || is_mapped(&destination))
        return MAPPED_ADDRESS;
    switch (ip->nexthdr) {
    case IPPROTO_TCP: case IPPROTO_UDP:
        return read_transport(packet, is_sent, ip + 1, end);
    case IPPROTO_ICMPV6:
        return check_icmp_v6(packet, slot, mac, is_sent, ip, end);
    case IPPROTO_FRAGMENT:
        return read_fragment_v6(packet, is_sent, ip, end);
    default:
        return is_extension(ip->nexthdr) ? EXTENSION_HEADER : PASSED_TO_KERNEL;
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
    packet->is_answer = operation == ARP_REPLY;
    packet->key.local = is_sent ? sender : target;
    packet->key.peer = is_sent ? target : sender;
    if (!is_sent)
        return PASSED_TO_KERNEL;
    if (!same_mac(arp->sender_mac, mac))
        return ARP_FORGED;
    // A probe asks from 0.0.0.0 about an own address (RFC 5227).
    if (arp->sender_ip == 0 && operation == ARP_REQUEST)
        packet->key.local = target;
    return owns(slot, &packet->key.local) ? PASSED_TO_KERNEL : ARP_FORGED;
}

// Takes off the tags: none, one of 802.1Q, or one of 802.1ad around one of 802.1Q, which is how bridges read them. Who
// sends them does not choose his priority. Returns the rest of the frame.
static __always_inline void *untag(struct packet *packet, int is_sent, struct ethhdr *ethernet, void *end, enum cause *cause) {
    void *rest = ethernet + 1;
    packet->key.type = bpf_ntohs(ethernet->h_proto);
    packet->key.vlan = packet->key.inner_vlan = UNTAGGED;
    packet->link_bytes = sizeof(struct ethhdr);
    if (packet->key.type != ETH_P_8021Q && packet->key.type != ETHERTYPE_SERVICE_TAG)
        return rest;
    struct tag *tag = rest;
    *cause = VLAN_TAG;
    if ((void *)(tag + 1) > end)
        return 0;
    int is_outer = packet->key.type == ETHERTYPE_SERVICE_TAG;
    __u16 control = bpf_ntohs(tag->control);
    packet->key.vlan = control & 0xfff;
    packet->key.type = bpf_ntohs(tag->type);
    packet->link_bytes += sizeof(*tag);
    if (is_outer) {
        tag += 1;
        if (packet->key.type != ETH_P_8021Q || (void *)(tag + 1) > end)
            return 0;
        packet->key.inner_vlan = bpf_ntohs(tag->control) & 0xfff;
        packet->key.type = bpf_ntohs(tag->type);
        packet->link_bytes += sizeof(*tag);
        control |= bpf_ntohs(tag->control);
    }
    if (packet->key.type == ETH_P_8021Q || packet->key.type == ETHERTYPE_SERVICE_TAG || (is_sent && control & 0xf000))
        return 0;
    return tag + 1;
}

static __always_inline enum cause read(struct packet *packet, __u32 slot, const struct vnic *vnic, int is_sent, void *data, void *end,
                                       __u64 length) {
    struct ethhdr *ethernet = data;
    enum cause cause = TOO_SHORT;
    if ((void *)(ethernet + 1) > end)
        return TOO_SHORT;
    if (is_sent && !same_mac(ethernet->h_source, vnic->mac))
        return SOURCE_MAC;
    __builtin_memcpy(packet->key.mac, is_sent ? ethernet->h_dest : ethernet->h_source, 6);
    packet->key.direction = is_sent ? TRANSMIT : RECEIVE;
    void *rest = untag(packet, is_sent, ethernet, end, &cause);
    if (!rest)
        return cause;
    switch (packet->key.type) {
    case ETH_P_IP:
        cause = read_v4(packet, is_sent, rest, end, length);
        break;
    case ETH_P_IPV6:
        cause = read_v6(packet, slot, vnic->mac, is_sent, rest, end, length);
        break;
    case ETH_P_ARP:
        cause = read_arp(packet, slot, vnic->mac, is_sent, rest, end);
        break;
    default: // a filter must name it
        packet->key.protocol = NOT_IP;
        return PASSED_TO_KERNEL;
    }
    packet->key.is_link_only = packet->is_neighbour | packet->is_icmp ? LINK_FREE : 0;
    return cause;
}
