// SPDX-License-Identifier: Apache-2.0
// A Linux VLAN interface's part, for a kernel without 802.1Q: what leaves gets the tag, what comes with it loses it.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#ifndef IDENTIFIER
#define IDENTIFIER 5
#endif

SEC("tc/push")
int push(struct __sk_buff *frame) {
    return bpf_skb_vlan_push(frame, bpf_htons(ETH_P_8021Q), IDENTIFIER) ? TC_ACT_SHOT : TC_ACT_OK;
}

SEC("tc/pop")
int pop(struct __sk_buff *frame) {
    if (!frame->vlan_present || (frame->vlan_tci & 0xfff) != IDENTIFIER)
        return TC_ACT_SHOT;
    return bpf_skb_vlan_pop(frame) ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "Apache-2.0";
