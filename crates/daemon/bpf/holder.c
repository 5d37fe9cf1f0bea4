// SPDX-License-Identifier: Apache-2.0
// Tells which of the sockets handed out are still held by somebody: the memory registered with one stays pinned until its
// last descriptor is closed, whatever became of its VNIC. The kernel takes a socket out of the table when it ends.
//
// Asked by a test run; attached to nothing that traffic passes. Layout: twin of src/cards/charges.rs.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define HELD_MAX 4096

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, HELD_MAX);
} held SEC(".maps");

// The frame begins with the row asked about. XDP_PASS: held.
SEC("xdp")
int holder(struct xdp_md *context) {
    void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
    __u32 *row = data;
    if ((void *)(row + 1) > end)
        return XDP_ABORTED;
    __u32 key = *row;
    return bpf_map_lookup_elem(&held, &key) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "Apache-2.0";
