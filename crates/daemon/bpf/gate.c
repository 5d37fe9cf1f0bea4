// SPDX-License-Identifier: Apache-2.0
// The fence around every VNIC:
//
//     application ── queue ── VNIC's end ═══ veth ═══ switch's end ── the kernel
//                              deliver                    gate ── other VNICs' switch ends, the uplink
//
// `gate` sees what a VNIC sends: it drops what no transmit filter allows, polices, counts, and switches what is for
// another VNIC or the uplink straight to it. `deliver` sees what is about to reach a VNIC: it drops what is not addressed
// to it or what no receive filter allows, throttles, counts, and puts the rest into the right queue's ring. `relay` and
// `deliver_queue` are the two ends of a further queue. `uplink` sees what comes from the wire: what is for a VNIC leaves
// the kernel's path there. `own_queue` sees what comes by a NIC some of whose queues belong to VNICs. Of a VNIC that is a TAP
// device, `tap_gate`, `tap_deliver` and `onward` see what is sent and received (tap.h).
//
// Nothing here trusts a byte of a frame.
#include "read.h"

// What holds a frame: what XDP programs see, or a socket buffer, which classifiers see.
enum carrier { XDP_BUFFER, SOCKET_BUFFER };

// What a packet costs: a train, which is to be cut, as much as the frames that it becomes.
struct load {
    __u64 length, frames;
};

// Where a frame begins and ends. It is asked for again behind `read`: what is known of the frame on each way through that is of no
// use there, and the kernel's verifier need not follow each way to the end then.
static __always_inline void *start_of(void *context, enum carrier carrier) {
    return carrier == XDP_BUFFER ? (void *)(long)*(volatile __u32 *)&((struct xdp_md *)context)->data
                                 : (void *)(long)*(volatile __u32 *)&((struct __sk_buff *)context)->data;
}

static __always_inline void *end_of(void *context, enum carrier carrier) {
    return carrier == XDP_BUFFER ? (void *)(long)*(volatile __u32 *)&((struct xdp_md *)context)->data_end
                                 : (void *)(long)*(volatile __u32 *)&((struct __sk_buff *)context)->data_end;
}

struct search {
    const struct key *key;
    __u64 local[2], peer[2], mac;
    __u32 first;
    __u32 verdict;
};

static __always_inline int within(const __u64 *address, const struct addresses *wanted) {
    return (address[0] & wanted->mask[0]) == wanted->value[0] && (address[1] & wanted->mask[1]) == wanted->value[1] &&
           (address[0] > wanted->first[0] || (address[0] == wanted->first[0] && address[1] >= wanted->first[1])) &&
           (address[0] < wanted->last[0] || (address[0] == wanted->last[0] && address[1] <= wanted->last[1]));
}

static __always_inline int matches(const struct filter *filter, const struct search *search) {
    const struct key *key = search->key;
    if (key->vlan < filter->vlan_first || key->vlan > filter->vlan_last || key->inner_vlan < filter->inner_first ||
        key->inner_vlan > filter->inner_last || search->mac < filter->mac_first || search->mac > filter->mac_last ||
        (search->mac & filter->mac_mask) != filter->mac_value)
        return 0;
    if (key->is_link_only == LINK_FREE)
        return 1;
    if (key->is_link_only)
        return (!(filter->flags & FILTER_ASKED) || key->is_link_only == LINK_QUESTION) && filter->type_first <= key->type &&
               key->type <= filter->type_last && within(search->peer, &filter->peer);
    return filter->protocol_first <= key->protocol && key->protocol <= filter->protocol_last &&
           filter->local_first <= key->local_port && key->local_port <= filter->local_last &&
           filter->peer_first <= key->peer_port && key->peer_port <= filter->peer_last &&
           filter->type_first <= key->type && key->type <= filter->type_last && within(search->local, &filter->local) &&
           within(search->peer, &filter->peer);
}

static long compare(__u32 index, struct search *search) {
    __u32 row = search->first + index;
    struct filter *filter = bpf_map_lookup_elem(&filters, &row);
    if (!filter)
        return 1;
    if (!matches(filter, search))
        return 0;
    search->verdict = FOUND | (__u32)filter->target << 16 | (__u32)(filter->flags & 0x3f) << 8 | filter->queue;
    return 1;
}

// The first of a range of filters that covers the packet, as a verdict; 0: none does.
static __always_inline __u32 scan(__u32 range, const struct key *key) {
    const __u64 *local = (const void *)&key->local, *peer = (const void *)&key->peer;
    struct search search = {
        .key = key,
        .local = {bpf_be64_to_cpu(local[0]), bpf_be64_to_cpu(local[1])},
        .peer = {bpf_be64_to_cpu(peer[0]), bpf_be64_to_cpu(peer[1])},
        .mac = mac_bits(key->mac),
        .first = range >> 16,
    };
    bpf_loop(range & 0xffff, compare, &search, 0);
    return search.verdict;
}

static __always_inline __u64 hash(const struct key *key, int words) {
    const __u64 *parts = (const void *)key;
    __u64 sum = 0x9e3779b97f4a7c15;
#pragma unroll
    for (int i = 0; i < words; i++)
        sum = (sum ^ parts[i]) * 0xff51afd7ed558ccd, sum ^= sum >> 32;
    return sum;
}

static __always_inline int same_key(const struct key *one, const struct key *other) {
    const __u64 *a = (const void *)one, *b = (const void *)other;
    __u64 difference = 0;
#pragma unroll
    for (int i = 0; i < sizeof(*one) / 8; i++)
        difference |= a[i] ^ b[i];
    return !difference;
}

// Asks the filters, or what they said of this flow before: the cost must not grow with their number.
static __always_inline __u32 ask(__u32 slot, const struct vnic *vnic, enum direction direction, const struct key *key) {
    // The daemon writes the range before the generation: read in the other order, an old verdict is never kept as new.
    __u32 generation = *(volatile __u32 *)&vnic->generation;
    __u32 range = *(volatile __u32 *)&vnic->filters[direction];
    if ((range & 0xffff) <= SCANNED_MAX)
        return scan(range, key);
    __u32 row = slot * FLOWS_PER_VNIC + (hash(key, sizeof(*key) / 8) & (FLOWS_PER_VNIC - 1));
    struct flow *flow = bpf_map_lookup_elem(&flows, &row);
    if (!flow)
        return 0;
    if (flow->verdict && flow->generation == generation && same_key(&flow->key, key))
        return flow->verdict & FOUND ? flow->verdict & ~KNOWN : 0;
    __u32 verdict = scan(range, key);
    // No other program runs on this processor meanwhile: the row is never seen half written.
    flow->verdict = 0;
    flow->key = *key;
    flow->generation = generation;
    flow->verdict = KNOWN | verdict;
    return verdict;
}

// What a fragment is judged as: the first by its own headers, which are kept, and a later one by those, if it goes on exactly
// where the one before it ended. So no fragment reaches back into the headers that were judged, whatever the receiver makes of
// overlaps, and all of them are asked about. Datagrams that come in between can push one out, which is then lost; so is one whose
// fragments come in another order, or by two processors in the same moment.
static __always_inline enum cause go_on(struct datagram *datagram, struct packet *packet) {
    struct key *key = &packet->key;
    struct piece *piece = &packet->piece;
    __u64 now = bpf_ktime_get_ns();
    if (!piece->offset) {
        key->is_link_only = packet->is_icmp ? LINK_FREE : 0;
        datagram->key = *key;
        datagram->identification = piece->identification;
    } else {
        key->local_port = datagram->key.local_port, key->peer_port = datagram->key.peer_port;
        key->is_link_only = packet->is_icmp = datagram->key.is_link_only; // LINK_FREE is 1
        if (!datagram->next || datagram->next != piece->offset || datagram->identification != piece->identification ||
            now > datagram->expires || !same_key(&datagram->key, key))
            return FRAGMENT;
    }
    datagram->next = piece->more ? piece->offset + piece->length : 0;
    datagram->expires = now + FRAGMENTS_NS;
    return PASSED_TO_KERNEL;
}

static __always_inline enum cause follow(__u32 slot, enum follower follower, struct packet *packet) {
    struct key *key = &packet->key;
    if (!packet->piece.is_sound)
        return FRAGMENT;
    const __u64 *local = (const void *)&key->local, *peer = (const void *)&key->peer;
    __u64 sum = (local[1] ^ peer[0] ^ peer[1] << 7 ^ (__u64)packet->piece.identification << 16) * 0xff51afd7ed558ccd;
    __u32 row = (slot * FOLLOWERS + follower) * DATAGRAMS_PER_VNIC + (sum >> 40) % DATAGRAMS_PER_VNIC;
    struct datagram *datagram = bpf_map_lookup_elem(&datagrams, &row);
    if (!datagram || __sync_val_compare_and_swap(&datagram->is_held, 0, 1))
        return FRAGMENT;
    enum cause cause = go_on(datagram, packet);
    __sync_val_compare_and_swap(&datagram->is_held, 1, 0);
    return cause;
}

static __always_inline int has(__u32 verdict, __u32 flag) {
    return verdict & FOUND && verdict & flag << 8;
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
static __always_inline enum cause police(const struct vnic *vnic, enum direction direction, struct load load, enum cause verdict) {
    __u64 now = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        __u32 row = vnic->limits[direction][i];
        if (!row)
            continue;
        struct limit *limit = bpf_map_lookup_elem(&limits, &row);
        if (!limit || !(limit->per_packet | limit->per_byte))
            continue;
        if (!now)
            now = bpf_ktime_get_ns() << 4;
        __u64 packets = limit->per_packet * load.frames;
        if (limit->per_packet && !take(&limit->arrival_packets, packets, limit->tolerance_packets, now))
            return RATE_PACKETS;
        __u64 cost = (load.length + FRAME_OVERHEAD * load.frames) * limit->per_byte >> 16;
        if (limit->per_byte && !take(&limit->arrival_bits, cost, limit->tolerance_bits, now))
            return RATE_BITS;
    }
    return verdict;
}

static __always_inline void count(__u32 slot, enum direction direction, enum cause cause, struct load load) {
    __u32 row = (slot * DIRECTIONS + direction) * CAUSES + cause;
    __u64 *counter = bpf_map_lookup_elem(&counters, &row);
    if (counter) {
        counter[0] += load.frames;
        counter[1] += load.length;
    }
}

// Whom a frame of no IP that may be sent is for, by its Ethernet address.
static __always_inline enum cause route_link(const struct vnic *vnic, const struct ethhdr *ethernet, __u32 *to) {
    __u64 mac = mac_bits(ethernet->h_dest);
    __u32 *card = bpf_map_lookup_elem(&cards, &mac);
    if (card) {
        __u32 other = *card;
        struct vnic *neighbour = bpf_map_lookup_elem(&vnics, &other);
        if (!neighbour || !(vnic->flags & neighbour->flags & FLAG_SWITCH))
            return NOT_SWITCHED;
        *to = other;
        return SWITCHED;
    }
    if (same_mac(ethernet->h_dest, vnic->host_mac))
        return PASSED_TO_KERNEL;
    if (vnic->flags & FLAG_UPLINK)
        return TO_UPLINK;
    return ethernet->h_dest[0] & 1 ? PASSED_TO_KERNEL : DESTINATION_MAC;
}

// Whom a frame that may be sent is for: another VNIC, whose number is put into `to`, the uplink, or the kernel.
static __always_inline enum cause route(const struct vnic *vnic, __u32 slot, const struct packet *packet, struct ethhdr *ethernet, __u32 *to) {
    if (packet->key.protocol == NOT_IP)
        return route_link(vnic, ethernet, to);
    __u32 *owner = bpf_map_lookup_elem(&owners, &packet->key.peer);
    int is_kernels = owner && *owner == KERNEL;
    if (owner && !is_kernels && *owner != slot) {
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
    // To the kernel a packet from its own address is a forgery.
    if (vnic->flags & FLAG_SHARED)
        return is_kernels || same_mac(ethernet->h_dest, vnic->host_mac) ? NOT_SWITCHED : TO_UPLINK;
    if (same_mac(ethernet->h_dest, vnic->host_mac))
        return PASSED_TO_KERNEL;
    if (vnic->flags & FLAG_UPLINK && !is_kernels)
        return TO_UPLINK;
    // Broadcast and multicast reach the kernel of this machine and no further.
    return ethernet->h_dest[0] & 1 ? PASSED_TO_KERNEL : DESTINATION_MAC;
}

// A checksum with six bytes at an even place replaced (RFC 1624).
static __always_inline __be16 replaced(__be16 checksum, const __u8 *before, const __u8 *after) {
    const __u16 *old = (const void *)before, *new = (const void *)after;
    __u32 sum = (__u16)~checksum;
#pragma unroll
    for (int i = 0; i < 3; i++)
        sum += (__u16)~old[i] + new[i];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}

// A solicitation for a neighbour; for duplicates of the kernel's address the kernel looks.
static __always_inline enum cause disguise_solicitation(const struct packet *packet, struct ethhdr *ethernet, const __u8 *mac, void *end) {
    struct ipv6hdr *ip = (void *)(ethernet + 1);
    struct icmp *icmp = (void *)(ip + 1);
    __u8 *option = (__u8 *)icmp + 24;
    if (packet->key.vlan != UNTAGGED || (void *)(option + 8) > end || ip->payload_len != bpf_htons(32) || option[0] != 1)
        return ND_FORGED;
    struct address source = from_v6(&ip->saddr);
    if (is_unspecified(&source))
        return ND_FORGED;
    icmp->checksum = replaced(icmp->checksum, option + 2, mac);
    __builtin_memcpy(option + 2, mac, 6);
    return TO_UPLINK;
}

// Where a VNIC's question for a neighbour on the wire is noted, and as what.
static __always_inline __u64 *asked_row(__u32 slot, const struct address *neighbour, __u64 *name) {
    const __u64 *words = (const void *)neighbour;
    __u64 sum = (words[0] ^ 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
    sum = (sum ^ sum >> 32 ^ words[1]) * 0xff51afd7ed558ccd;
    *name = sum | 1; // 0: nothing
    __u32 row = slot * ASKED_PER_VNIC + (sum >> 58) % ASKED_PER_VNIC;
    return bpf_map_lookup_elem(&asked, &row);
}

static __always_inline void note_asked(__u32 slot, const struct address *neighbour) {
    __u64 name, *row = asked_row(slot, neighbour, &name);
    if (row)
        *(volatile __u64 *)row = name;
}

// On the wire a shared address is at the uplink's Ethernet address, which the kernel tells to who asks.
static __always_inline enum cause disguise(__u32 slot, const struct packet *packet, struct ethhdr *ethernet, void *end) {
    __u32 row = 0;
    struct uplink *uplink = bpf_map_lookup_elem(&uplink_row, &row);
    if (!uplink)
        return NO_VNIC;
    __builtin_memcpy(ethernet->h_source, uplink->mac, 6);
    if (!packet->is_neighbour)
        return TO_UPLINK;
    struct arp_ipv4 *arp = (void *)(ethernet + 1);
    int is_arp = packet->key.type == ETH_P_ARP;
    if (packet->is_answer)
        return is_arp ? ARP_FORGED : ND_FORGED;
    if (is_arp) {
        if (packet->key.vlan != UNTAGGED || (void *)(arp + 1) > end)
            return ARP_FORGED;
        __builtin_memcpy(arp->sender_mac, uplink->mac, 6);
    } else if (disguise_solicitation(packet, ethernet, uplink->mac, end) != TO_UPLINK) {
        return ND_FORGED;
    }
    note_asked(slot, &packet->key.peer);
    return TO_UPLINK;
}

// Whom a VNIC may ask for, whoever its peers are: next hops, and itself (RFC 4862 section 5.4, RFC 5227).
static __always_inline int is_near(__u32 slot, const struct address *address) {
    __u32 *owner = bpf_map_lookup_elem(&owners, address);
    return (owner && (*owner == KERNEL || *owner == slot)) || bpf_map_lookup_elem(&gateways, address);
}

// What a filter must cover of ARP, ND or ICMP that is sent. Answers are for who has asked, and say nothing but what is the
// VNIC's own.
static __always_inline __u8 link_scope(__u32 slot, const struct packet *packet) {
    if (packet->is_icmp)
        return LINK_ICMP;
    return packet->is_answer || is_near(slot, &packet->key.peer) ? LINK_FREE : LINK_QUESTION;
}

// What the filters say of a frame that is well formed.
static __always_inline enum cause judge(__u32 slot, const struct vnic *vnic, struct packet *packet) {
    struct key *key = &packet->key;
    int is_tagged = key->vlan != UNTAGGED, is_bound = is_tagged || vnic->flags & FLAG_PEERS;
    if (key->is_link_only && is_bound)
        key->is_link_only = link_scope(slot, packet);
    // Without a tag ARP, ND and ICMP need no filter but for their peers, where the rule names some: whose they say they are
    // has been checked or is below.
    int is_known = key->is_link_only && !is_tagged && (!is_bound || key->is_link_only == LINK_FREE);
    __u32 verdict = is_known ? FOUND : ask(slot, vnic, TRANSMIT, key);
    if (!(verdict & FOUND))
        return is_tagged ? VLAN_TAG : key->protocol == NOT_IP ? ETHERTYPE : NO_FILTER;
    if (key->protocol == NOT_IP)
        return PASSED_TO_KERNEL;
    if (!owns(slot, &key->local) && (key->is_link_only || !has(verdict, FILTER_GRANTED)))
        return packet->is_neighbour ? ND_FORGED : SOURCE_ADDRESS;
    return packet->is_icmp && !(vnic->flags & FLAG_ICMP) ? NO_FILTER : PASSED_TO_KERNEL;
}

// The flow that an ICMP error tells of, from the VNIC's side: of an error that is sent it received the packet that is quoted, and
// of one that is received it sent that. 0: the quote is not whole, which is the header and eight bytes (RFC 792, RFC 4443), or
// nobody answers such a packet with an error: one with options or extension headers, another error, a later fragment
// (RFC 1122 section 3.2.2).
static __always_inline int read_quote(void *context, enum carrier carrier, const struct packet *packet, struct key *flow) {
    void *data = start_of(context, carrier), *end = end_of(context, carrier);
    __u32 link = packet->link_bytes;
    if (link > sizeof(struct ethhdr) + 2 * sizeof(struct tag))
        return 0;
    data += link;
    int is_sent = packet->key.direction == TRANSMIT, is_v4 = packet->key.type == ETH_P_IP;
    struct address source, destination;
    struct udp *quoted;
    __u8 protocol;
    if (is_v4) {
        struct iphdr *ip = data + sizeof(*ip) + sizeof(struct icmp);
        quoted = (void *)(ip + 1);
        if ((void *)(quoted + 1) > end || ip->version != 4 || ip->ihl != 5 || ip->frag_off & bpf_htons(0x1fff))
            return 0;
        source = from_v4(ip->saddr), destination = from_v4(ip->daddr), protocol = ip->protocol;
    } else {
        struct ipv6hdr *ip = data + sizeof(*ip) + sizeof(struct icmp);
        quoted = (void *)(ip + 1);
        if ((void *)(quoted + 1) > end || ip->version != 6 || ip->nexthdr == IPPROTO_FRAGMENT || is_extension(ip->nexthdr))
            return 0;
        source = from_v6(&ip->saddr), destination = from_v6(&ip->daddr), protocol = ip->nexthdr;
        if (is_mapped(&source) || is_mapped(&destination))
            return 0;
    }
    __u16 from = 0, to = 0;
    __u8 is_icmp = protocol == (is_v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6), type = ((struct icmp *)quoted)->type;
    if (is_icmp && type != (is_v4 ? 8 : 128) && type != (is_v4 ? 0 : 129))
        return 0;
    // Of TCP, too, the ports come first.
    if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)
        from = bpf_ntohs(quoted->source), to = bpf_ntohs(quoted->destination);
    flow->local = is_sent ? destination : source;
    flow->peer = is_sent ? source : destination;
    flow->local_port = is_sent ? to : from;
    flow->peer_port = is_sent ? from : to;
    flow->protocol = protocol;
    flow->is_link_only = is_icmp ? LINK_FREE : 0;
    return 1;
}

// Whether an ICMP error tells of a packet that the VNIC may have received from whom it sends the error to, or may have sent
// itself if it receives the error: else it could speak, or hear, about others' flows. The quote is judged as the packet would
// be.
static __always_inline int is_quote_apt(void *context, enum carrier carrier, struct packet *packet, __u32 slot) {
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!packet || !vnic)
        return 0;
    struct key flow = packet->key;
    if (!read_quote(context, carrier, packet, &flow))
        return 0;
    int is_sent = packet->key.direction == TRANSMIT, is_tagged = flow.vlan != UNTAGGED;
    if (is_sent ? !same_address(&flow.peer, &packet->key.peer) : !same_address(&flow.local, &packet->key.local))
        return 0;
    flow.direction = is_sent ? RECEIVE : TRANSMIT;
    // As in `accept` and `judge`.
    int is_known = !is_tagged && (flow.is_link_only || (is_sent && !(vnic->flags & FLAG_FILTERED)));
    __u32 verdict = flow.is_link_only && !is_tagged ? FOUND : ask(slot, vnic, flow.direction, &flow);
    if (!is_known && !(verdict & FOUND))
        return 0;
    return owns(slot, &flow.local) || has(verdict, FILTER_GRANTED);
}

// Global, so that the verifier judges it once and not on each way to it; one for each kind of program, as it goes by the context's type.
__noinline int judge_quote(struct xdp_md *context, struct packet *packet, __u32 slot) {
    return is_quote_apt(context, XDP_BUFFER, packet, slot);
}

__noinline int judge_tap_quote(struct __sk_buff *context, struct packet *packet, __u32 slot) {
    return is_quote_apt(context, SOCKET_BUFFER, packet, slot);
}

static __always_inline int is_apt(void *context, enum carrier carrier, struct packet *packet, __u32 slot) {
    return carrier == XDP_BUFFER ? judge_quote(context, packet, slot) : judge_tap_quote(context, packet, slot);
}

// What becomes of a frame that a VNIC sends, apart from its rates. Whom it is for, if that is a VNIC, is put into `to`.
static __always_inline enum cause judge_sent(void *context, enum carrier carrier, __u32 slot, const struct vnic *vnic, struct packet *packet,
                                             __u64 length, __u32 *to) {
    enum cause cause = read(packet, slot, vnic, 1, start_of(context, carrier), end_of(context, carrier), length);
    void *data = start_of(context, carrier), *end = end_of(context, carrier);
    if (cause == FRAGMENT)
        cause = follow(slot, AT_GATE, packet);
    if (cause == PASSED_TO_KERNEL)
        cause = judge(slot, vnic, packet);
    if (packet->is_error && cause == PASSED_TO_KERNEL)
        cause = is_apt(context, carrier, packet, slot) ? PASSED_TO_KERNEL : ICMP_QUOTE;
    if (cause == PASSED_TO_KERNEL && data + sizeof(struct ethhdr) <= end)
        cause = route(vnic, slot, packet, data, to);
    return cause;
}

static __always_inline int goes_on(enum cause cause) {
    return cause == PASSED_TO_KERNEL || cause == SWITCHED || cause == TO_UPLINK;
}

static __always_inline int gate_frame(struct xdp_md *context, __u64 length) {
    __u32 interface = context->ingress_ifindex;
    __u32 *found = bpf_map_lookup_elem(&gates, &interface);
    if (!found)
        return XDP_DROP;
    __u32 slot = *found;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!vnic)
        return XDP_DROP;
    struct packet packet = {};
    struct load load = {.length = length, .frames = 1};
    __u32 to = 0;
    enum cause cause = judge_sent(context, XDP_BUFFER, slot, vnic, &packet, length, &to);
    void *data = start_of(context, XDP_BUFFER), *end = end_of(context, XDP_BUFFER);
    if (goes_on(cause))
        cause = police(vnic, TRANSMIT, load, cause);
    if (cause == TO_UPLINK && vnic->flags & FLAG_SHARED && data + sizeof(struct ethhdr) <= end)
        cause = disguise(slot, &packet, data, end);
    count(slot, TRANSMIT, cause, load);
    if (cause == SWITCHED)
        return bpf_redirect_map(&ports, to, 0);
    if (cause == TO_UPLINK)
        return bpf_redirect_map(&uplinks, 0, 0);
    return cause == PASSED_TO_KERNEL || vnic->flags & FLAG_UNFENCED ? XDP_PASS : XDP_DROP;
}

// Whether an unfiltered VNIC gets what can't be filtered.
static __always_inline int is_unfilterable(enum cause cause) {
    return cause == FRAGMENT || cause == OPTIONS || cause == ICMP_TYPE || cause == EXTENSION_HEADER;
}

// Whether a VNIC is to have a well-formed frame; the filter that says so is put into `verdict`.
static __always_inline enum cause accept(__u32 slot, const struct vnic *vnic, const struct packet *packet, struct ethhdr *ethernet,
                                         __u32 *verdict) {
    const struct key *key = &packet->key;
    int is_filtered = vnic->flags & FLAG_FILTERED, is_tagged = key->vlan != UNTAGGED, is_ip = key->protocol != NOT_IP;
    int is_known = key->is_link_only && !is_tagged;
    if (!is_known && vnic->filters[RECEIVE] & 0xffff)
        *verdict = ask(slot, vnic, RECEIVE, key);
    if (is_ip ? !owns(slot, &key->local) && !has(*verdict, FILTER_GRANTED)
              : !same_mac(ethernet->h_dest, vnic->mac) && !(ethernet->h_dest[0] & 1))
        return NOT_ADDRESSED;
    if (*verdict & FOUND || is_known || (!is_filtered && !is_tagged && is_ip))
        return DELIVERED;
    return is_tagged ? VLAN_TAG : is_ip ? NO_FILTER : ETHERTYPE;
}

// Has an ICMP error go where the packets of the flow it tells of go: names that flow in place of the error's own addresses. What
// is no whole quote is any queue's. Global, so that the verifier judges it once and not on each way to it; always 0.
__noinline int name_quoted(struct xdp_md *context, struct packet *packet) {
    if (packet)
        read_quote(context, XDP_BUFFER, packet, &packet->key);
    return 0;
}

// Which further queues of a VNIC asked for a neighbour, in a word that changes as a whole: asked by several, it answers each, and
// each answer is for one of them. Queue 0, whose frames pass no program of ours before the gate's, has those that nobody else asked for.
static __always_inline __u64 *question(__u32 slot, const struct vnic *vnic, const struct address *neighbour, __u64 *name) {
    const __u64 *words = (const void *)neighbour;
    __u64 sum = (words[0] ^ words[1] << 7 ^ mac_bits(vnic->mac)) * 0xff51afd7ed558ccd;
    *name = sum >> QUEUES_MAX << QUEUES_MAX;
    __u32 row = slot * QUESTIONS_PER_VNIC + (sum >> 60) % QUESTIONS_PER_VNIC;
    return bpf_map_lookup_elem(&questions, &row);
}

// Where processors come in each other's way that often it is lost, and asked again.
#define ATTEMPTS 4

static __always_inline void note_question(__u32 slot, const struct vnic *vnic, const struct address *neighbour, __u32 queue) {
    __u64 name, *row = question(slot, vnic, neighbour, &name);
    if (!row)
        return;
#pragma unroll
    for (int i = 0; i < ATTEMPTS; i++) {
        __u64 old = *(volatile __u64 *)row;
        __u64 askers = old >> QUEUES_MAX << QUEUES_MAX == name ? old : name;
        if (__sync_val_compare_and_swap(row, old, askers | 1ull << (queue % QUEUES_MAX)) == old)
            return;
    }
}

// The first queue that asked and has no answer yet.
static __always_inline __u32 take_asker(__u32 slot, const struct vnic *vnic, const struct address *neighbour) {
    __u64 name, *row = question(slot, vnic, neighbour, &name);
    if (!row)
        return 0;
#pragma unroll
    for (int i = 0; i < ATTEMPTS; i++) {
        __u64 old = *(volatile __u64 *)row, first = old & -old;
        if (old >> QUEUES_MAX << QUEUES_MAX != name || old == name)
            return 0;
        if (__sync_val_compare_and_swap(row, old, old & ~first) == old)
            return !!(first & 0xaaaa) | !!(first & 0xcccc) << 1 | !!(first & 0xf0f0) << 2 | !!(first & 0xff00) << 3;
    }
    return 0;
}

// The queue a frame is for: its filter's, the one that asked, or by its flow. Addresses and ports are a flow's.
static __always_inline __u32 choose_queue(__u32 slot, const struct vnic *vnic, const struct packet *packet, __u32 verdict) {
    __u32 queue = verdict & 0xff;
    if (verdict & FOUND && queue != SPREAD_QUEUE)
        return queue;
    if (vnic->spread <= 1)
        return 0;
    if (packet->is_answer)
        return take_asker(slot, vnic, &packet->key.peer);
    return packet->is_neighbour ? 0 : (__u32)(hash(&packet->key, 5) >> 16) % vnic->spread;
}

// What becomes of a frame that is about to reach a VNIC, apart from its rates; the filter that says so is put into `verdict`.
static __always_inline enum cause judge_received(void *context, enum carrier carrier, __u32 slot, const struct vnic *vnic,
                                                 struct packet *packet, __u64 length, __u32 *verdict) {
    enum cause cause = read(packet, slot, vnic, 0, start_of(context, carrier), end_of(context, carrier), length);
    void *data = start_of(context, carrier), *end = end_of(context, carrier);
    if (cause == FRAGMENT)
        cause = follow(slot, AT_END, packet);
    if (cause == PASSED_TO_KERNEL && data + sizeof(struct ethhdr) <= end)
        cause = accept(slot, vnic, packet, data, verdict);
    else if (is_unfilterable(cause) && !(vnic->flags & FLAG_FILTERED) && packet->key.vlan == UNTAGGED)
        // Without receive filters everything to an own address is the VNIC's: fragments in any order, and options too.
        cause = owns(slot, &packet->key.local) ? DELIVERED : NOT_ADDRESSED;
    if (packet->is_error && cause == DELIVERED && vnic->flags & FLAG_FILTERED && !is_apt(context, carrier, packet, slot))
        cause = ICMP_QUOTE;
    return cause;
}

static __always_inline int deliver_frame(struct xdp_md *context, __u64 length) {
    __u32 interface = context->ingress_ifindex;
    __u32 *found = bpf_map_lookup_elem(&ends, &interface);
    if (!found)
        return XDP_DROP;
    __u32 slot = *found / QUEUES_MAX;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!vnic)
        return XDP_DROP;
    struct packet packet = {};
    struct load load = {.length = length, .frames = 1};
    __u32 verdict = 0;
    enum cause cause = judge_received(context, XDP_BUFFER, slot, vnic, &packet, length, &verdict);
    if (cause == DELIVERED && has(verdict, FILTER_DIVERTED)) {
        count(slot, RECEIVE, DIVERTED, load);
        return bpf_redirect_map(&ports, verdict >> 16 & (VNICS_MAX - 1), 0);
    }
    if (cause == DELIVERED)
        cause = police(vnic, RECEIVE, load, DELIVERED);
    int action = XDP_DROP;
    if (cause == DELIVERED) {
        if (packet.is_error && vnic->spread > 1)
            name_quoted(context, &packet);
        // Fragments by their addresses alone, for one that could not be followed has no ports.
        if (packet.piece.length)
            packet.key.local_port = packet.key.peer_port = 0;
        __u32 queue = choose_queue(slot, vnic, &packet, verdict), row = slot * QUEUES_MAX + queue;
        if (queue == 0)
            action = bpf_redirect_map(&sockets, row, XDP_DROP);
        else if (queue < QUEUES_MAX)
            action = bpf_redirect_map(&inlets, row, XDP_DROP);
        if (action != XDP_REDIRECT)
            cause = NO_QUEUE;
    }
    count(slot, RECEIVE, cause, load);
    return action;
}

// A frame from a further queue: on to the VNIC's end, behind which is the gate.
static __always_inline int relay_frame(struct xdp_md *context) {
    void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    __u32 interface = context->ingress_ifindex;
    __u32 *found = bpf_map_lookup_elem(&ends, &interface);
    if (!found)
        return XDP_DROP;
    __u32 slot = *found / QUEUES_MAX, queue = *found % QUEUES_MAX;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    struct ethhdr *ethernet = data;
    if (!vnic || (void *)(ethernet + 1) > end)
        return XDP_DROP;
    if (ethernet->h_proto == bpf_htons(ETH_P_ARP)) {
        struct arp_ipv4 *arp = (void *)(ethernet + 1);
        struct address neighbour;
        if ((void *)(arp + 1) <= end) {
            neighbour = from_v4(arp->target_ip);
            note_question(slot, vnic, &neighbour, queue);
        }
    } else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
        struct ipv6hdr *ip = (void *)(ethernet + 1);
        struct icmp *icmp = (void *)(ip + 1);
        struct in6_addr *target = (void *)(icmp + 1);
        if ((void *)(target + 1) <= end && ip->nexthdr == IPPROTO_ICMPV6 && icmp->type == 135) {
            struct address neighbour = from_v6(target);
            note_question(slot, vnic, &neighbour, queue);
        }
    }
    return bpf_redirect_map(&inlets, slot * QUEUES_MAX, 0);
}

static __always_inline int deliver_queue_frame(struct xdp_md *context) {
    __u32 interface = context->ingress_ifindex;
    __u32 *found = bpf_map_lookup_elem(&ends, &interface);
    return found ? bpf_redirect_map(&sockets, *found, XDP_DROP) : XDP_DROP;
}

// The answer to what a VNIC with a shared address asked is the VNIC's; the kernel asks again if it was its.
static __always_inline int is_asked(struct packet *packet, __u32 slot) {
    __u64 name, *row = asked_row(slot, &packet->key.peer, &name);
    return row && __sync_val_compare_and_swap(row, name, 0) == name;
}

// Whether a VNIC is to have a frame that came from the wire, of which `read` said `cause`: a well-formed one, a fragment, or what can't be
// filtered, which only a VNIC without filters gets.
static __always_inline enum cause judge_from_wire(__u32 slot, const struct vnic *vnic, struct packet *packet, struct ethhdr *ethernet,
                                                  enum cause cause) {
    __u32 verdict = 0;
    if (cause == FRAGMENT)
        cause = follow(slot, AT_WIRE, packet);
    if (cause == PASSED_TO_KERNEL)
        return accept(slot, vnic, packet, ethernet, &verdict);
    return vnic->flags & FLAG_FILTERED ? NO_FILTER : DELIVERED;
}

static __always_inline int uplink_frame(struct xdp_md *context, __u64 length) {
    void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    struct packet packet = {};
    struct vnic none = {};
    enum cause cause = read(&packet, KERNEL, &none, 0, data, end, length);
    data = start_of(context, XDP_BUFFER), end = end_of(context, XDP_BUFFER);
    struct ethhdr *ethernet = data;
    if ((void *)(ethernet + 1) > end || (cause != PASSED_TO_KERNEL && !is_unfilterable(cause)))
        return XDP_PASS;
    __u64 mac = mac_bits(ethernet->h_dest);
    __u32 *owner = packet.key.protocol == NOT_IP ? bpf_map_lookup_elem(&cards, &mac) : bpf_map_lookup_elem(&owners, &packet.key.local);
    if (!owner || *owner == KERNEL)
        return XDP_PASS;
    __u32 slot = *owner;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!vnic || !(vnic->flags & FLAG_UPLINK))
        return XDP_PASS;
    // Nobody on the wire has an address of this machine's.
    if (packet.key.protocol != NOT_IP && bpf_map_lookup_elem(&owners, &packet.key.peer))
        return XDP_DROP;
    int is_shared = vnic->flags & FLAG_SHARED;
    cause = judge_from_wire(slot, vnic, &packet, ethernet, cause);
    if (cause != DELIVERED)
        return XDP_PASS;
    if (is_shared) {
        struct arp_ipv4 *arp = (void *)(ethernet + 1);
        if (packet.is_icmp || ethernet->h_dest[0] & 1 || (packet.is_neighbour && !(packet.is_answer && is_asked(&packet, slot))))
            return XDP_PASS;
        __builtin_memcpy(ethernet->h_dest, vnic->mac, 6);
        if (packet.key.type == ETH_P_ARP && (void *)(arp + 1) <= end)
            __builtin_memcpy(arp->target_mac, vnic->mac, 6);
    } else if (!same_mac(ethernet->h_dest, vnic->mac) && !(ethernet->h_dest[0] & 1)) {
        return XDP_PASS;
    }
    return bpf_redirect_map(&ports, slot, XDP_PASS);
}

// A NIC's queue that is a VNIC's: what is for it there goes to the application, and all else is the kernel's. What the
// application sends is seen by nobody: it is trusted.
static __always_inline int own_queue_frame(struct xdp_md *context, __u64 length) {
    void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    struct packet packet = {};
    struct vnic none = {};
    enum cause cause = read(&packet, KERNEL, &none, 0, data, end, length);
    data = start_of(context, XDP_BUFFER), end = end_of(context, XDP_BUFFER);
    struct ethhdr *ethernet = data;
    if ((void *)(ethernet + 1) > end || (cause != PASSED_TO_KERNEL && !is_unfilterable(cause)) || packet.key.protocol == NOT_IP)
        return XDP_PASS;
    __u32 *owner = bpf_map_lookup_elem(&owners, &packet.key.local);
    if (!owner || *owner == KERNEL)
        return XDP_PASS;
    __u32 slot = *owner;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!vnic || !(vnic->flags & FLAG_QUEUE) || (!same_mac(ethernet->h_dest, vnic->mac) && !(ethernet->h_dest[0] & 1)))
        return XDP_PASS;
    cause = judge_from_wire(slot, vnic, &packet, ethernet, cause);
    if (packet.is_error && cause == DELIVERED && vnic->flags & FLAG_FILTERED && !judge_quote(context, &packet, slot))
        cause = ICMP_QUOTE;
    // Of a shared address the kernel answers for its link, and hears of errors.
    if (cause != DELIVERED || (vnic->flags & FLAG_SHARED && packet.key.is_link_only))
        return XDP_PASS;
    struct load load = {.length = length, .frames = 1};
    __u64 place = (__u64)context->ingress_ifindex << 32 | context->rx_queue_index;
    __u32 *row = bpf_map_lookup_elem(&nic_queues, &place);
    int action = XDP_PASS;
    if (row && *row / QUEUES_MAX == slot) {
        cause = police(vnic, RECEIVE, load, DELIVERED);
        action = cause == DELIVERED ? bpf_redirect_map(&sockets, *row, XDP_PASS) : XDP_DROP;
    }
    // By another queue than its own: the NIC has not been told which flows are for which.
    count(slot, RECEIVE, action == XDP_PASS ? NO_QUEUE : cause, load);
    return action;
}

#include "tap.h"

// veth knows packets of several buffers; their headers are in the first.
SEC("xdp.frags")
int gate(struct xdp_md *context) {
    return gate_frame(context, bpf_xdp_get_buff_len(context));
}

SEC("xdp.frags")
int deliver(struct xdp_md *context) {
    return deliver_frame(context, bpf_xdp_get_buff_len(context));
}

SEC("xdp.frags")
int relay(struct xdp_md *context) {
    return relay_frame(context);
}

SEC("xdp.frags")
int deliver_queue(struct xdp_md *context) {
    return deliver_queue_frame(context);
}

SEC("xdp.frags")
int uplink(struct xdp_md *context) {
    return uplink_frame(context, bpf_xdp_get_buff_len(context));
}

SEC("xdp.frags")
int own_queue(struct xdp_md *context) {
    return own_queue_frame(context, bpf_xdp_get_buff_len(context));
}

char _license[] SEC("license") = "Apache-2.0";
