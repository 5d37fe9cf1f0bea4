// SPDX-License-Identifier: Apache-2.0
// The fence around a VNIC that is a TAP device:
//
//     application ── descriptor ═══ TAP device ── the kernel
//                                    tap_gate ── other VNICs' switch ends
//                                 tap_deliver ── the kernel
//                                      onward ── other VNICs' gates
//
// `tap_gate` (clsact, ingress) sees what the application sends, `tap_deliver` (clsact, egress) what the kernel and other TAP devices
// send to it, and `onward` (XDP, on a device's row of `ports`) what `gate` sends there. They judge as the programs of veth devices do.
//
// A packet may be a train: TCP that is to be cut into frames of one size by whoever takes it off this machine. It is counted, and
// policed, as the frames that it becomes.
//
// Beside a packet its sender says where a checksum is still to be filled in, and the kernel does so behind the gate, wherever
// that is: in the source address, say. No program without a GPL-compatible licence can read the place. But the kernel refuses to
// cut a packet before the end of such a checksum (`bpf_skb_change_tail`, EINVAL), and that is asked of it:
//
// * TCP and UDP must leave their checksum to the kernel. A packet of which the kernel lets everything from the last byte of the
//   checksum on be cut off has either none that is to be filled in, or has it further in front. It is cut then, and dropped. So
//   the kernel writes into the checksum, or into what is behind it, which nobody judges.
// * Nothing like that is known of other packets: ICMP, fragments, neighbour discovery and other protocols. They go where nothing
//   fills a checksum in: to this machine itself, and to other VNICs.
#pragma once
#include <linux/pkt_cls.h>

#define EINVAL 22
#define HEADERS_MAX 128 // of what is judged: Ethernet, IPv6, and TCP with options, or neighbour discovery with some
#define TCP_CHECKSUM 16 // from its header's first byte
#define UDP_CHECKSUM 6

// Has the headers where a program can read them; they may be in several pieces.
static __always_inline void gather(struct __sk_buff *context) {
    if (start_of(context, SOCKET_BUFFER) + HEADERS_MAX > end_of(context, SOCKET_BUFFER))
        bpf_skb_pull_data(context, context->len < HEADERS_MAX ? context->len : HEADERS_MAX);
}

// Bytes of the headers, or 0: it is not TCP or UDP, or a fragment.
static __always_inline __u32 header_bytes(const struct packet *packet) {
    if (packet->piece.length || !packet->transport_bytes)
        return 0;
    return packet->link_bytes + packet->transport_bytes + (packet->key.type == ETH_P_IP ? sizeof(struct iphdr) : sizeof(struct ipv6hdr));
}

// What the packet becomes when it is cut.
static __always_inline struct load measure(const struct __sk_buff *context, const struct packet *packet) {
    struct load load = {.length = context->len, .frames = 1};
    __u32 headers = header_bytes(packet), size = context->gso_size;
    if (size && headers && context->len > headers) {
        load.frames = (context->len - headers + size - 1) / size;
        load.length += (load.frames - 1) * headers;
    }
    return load;
}

// Whether the packet is for this machine itself, and goes no further.
static __always_inline int ends_here(const struct packet *packet) {
    const __u8 *peer = packet->key.peer.bytes;
    int is_link_local = peer[0] == 0xfe && (peer[1] & 0xc0) == 0x80;
    if (packet->key.type == ETH_P_ARP || packet->key.mac[0] & 1 || is_link_local)
        return 1;
    __u32 *owner = bpf_map_lookup_elem(&owners, &packet->key.peer);
    return owner && *owner == KERNEL;
}

// What the sender said beside a packet that goes on. The packet can't be read any more afterwards.
static __always_inline enum cause check_offload(struct __sk_buff *context, const struct packet *packet, enum cause cause) {
    __u32 headers = header_bytes(packet);
    int is_tcp = packet->key.protocol == IPPROTO_TCP;
    if (context->gso_size && !(headers && is_tcp))
        return OFFLOAD;
    if (!headers)
        return cause == SWITCHED || ends_here(packet) ? cause : OFFLOAD;
    __u32 checksum_end = headers - packet->transport_bytes + (is_tcp ? TCP_CHECKSUM : UDP_CHECKSUM) + 2;
    return bpf_skb_change_tail(context, checksum_end - 1, 0) == -EINVAL ? cause : OFFLOAD;
}

// Where a VNIC's frames go; 0: nowhere.
static __always_inline __u32 door_of(__u32 slot) {
    __u32 *door = bpf_map_lookup_elem(&doors, &slot);
    return door ? *door : 0;
}

SEC("classifier")
int tap_gate(struct __sk_buff *context) {
    __u32 interface = context->ifindex;
    __u32 *found = bpf_map_lookup_elem(&gates, &interface);
    if (!found)
        return TC_ACT_SHOT;
    __u32 slot = *found, to = 0;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!vnic)
        return TC_ACT_SHOT;
    gather(context);
    struct packet packet = {};
    // The kernel has taken the tag off.
    enum cause cause = context->vlan_present ? VLAN_TAG : judge_sent(context, SOCKET_BUFFER, slot, vnic, &packet, context->len, &to);
    struct load load = measure(context, &packet);
    if (vnic->flags & FLAG_UNFENCED) {
        count(slot, TRANSMIT, cause, load);
        return TC_ACT_OK;
    }
    if (goes_on(cause))
        cause = check_offload(context, &packet, cause);
    if (goes_on(cause))
        cause = police(vnic, TRANSMIT, load, cause);
    __u32 door = cause == SWITCHED ? door_of(to) : 0;
    if ((cause == SWITCHED && !door) || cause == TO_UPLINK)
        cause = NOT_SWITCHED;
    count(slot, TRANSMIT, cause, load);
    if (door)
        return bpf_redirect(door, 0);
    return cause == PASSED_TO_KERNEL ? TC_ACT_OK : TC_ACT_SHOT;
}

SEC("classifier")
int tap_deliver(struct __sk_buff *context) {
    __u32 interface = context->ifindex;
    __u32 *found = bpf_map_lookup_elem(&gates, &interface);
    if (!found)
        return TC_ACT_SHOT;
    __u32 slot = *found, verdict = 0;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!vnic)
        return TC_ACT_SHOT;
    gather(context);
    struct packet packet = {};
    enum cause cause =
        context->vlan_present ? VLAN_TAG : judge_received(context, SOCKET_BUFFER, slot, vnic, &packet, context->len, &verdict);
    struct load load = measure(context, &packet);
    __u32 door = 0;
    if (cause == DELIVERED && has(verdict, FILTER_DIVERTED)) {
        door = door_of(verdict >> 16 & (VNICS_MAX - 1));
        cause = door ? DIVERTED : NO_QUEUE;
    }
    if (cause == DELIVERED)
        cause = police(vnic, RECEIVE, load, DELIVERED);
    count(slot, RECEIVE, cause, load);
    if (door)
        return bpf_redirect(door, 0);
    return cause == DELIVERED ? TC_ACT_OK : TC_ACT_SHOT;
}

// What comes from other VNICs' gates. It can't be diverted from here.
SEC("xdp.frags/devmap")
int onward(struct xdp_md *context) {
    __u32 interface = context->egress_ifindex;
    __u32 *found = bpf_map_lookup_elem(&gates, &interface);
    if (!found)
        return XDP_DROP;
    __u32 slot = *found, verdict = 0;
    struct vnic *vnic = bpf_map_lookup_elem(&vnics, &slot);
    if (!vnic)
        return XDP_DROP;
    struct load load = {.length = bpf_xdp_get_buff_len(context), .frames = 1};
    struct packet packet = {};
    enum cause cause = judge_received(context, XDP_BUFFER, slot, vnic, &packet, load.length, &verdict);
    if (cause == DELIVERED && has(verdict, FILTER_DIVERTED))
        cause = NO_QUEUE;
    if (cause == DELIVERED)
        cause = police(vnic, RECEIVE, load, DELIVERED);
    count(slot, RECEIVE, cause, load);
    return cause == DELIVERED ? XDP_PASS : XDP_DROP;
}
