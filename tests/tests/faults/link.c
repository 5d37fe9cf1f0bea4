// SPDX-License-Identifier: Apache-2.0
// Programs that somebody puts on an interface that is a service's peer.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("xdp/pass")
int pass(struct xdp_md *context) {
    return XDP_PASS;
}

SEC("xdp/drop")
int drop_all(struct xdp_md *context) {
    return XDP_DROP;
}

// Loses a quarter.
SEC("tc/lose")
int lose(struct __sk_buff *packet) {
    return (bpf_get_prandom_u32() & 3) == 0 ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "Apache-2.0";
