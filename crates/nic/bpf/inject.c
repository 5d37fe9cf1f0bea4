// SPDX-License-Identifier: Apache-2.0
// Sends a batch of frames through a device without a socket buffer for each: run by BPF_PROG_TEST_RUN with live frames
// (Linux 5.18), once per frame, in the sender's own system call. The sender has copied its frames into the batch, a map that
// it shares with this program. Each run copies the next frame into a page of the kernel's and redirects the page to the
// sender's device: through `ndo_xdp_xmit`, which veth passes on as it is.
//
// One program serves all senders. Each has a row: a batch, and the device its frames leave by. A sender shows which row is its own
// by a token before the frame that it gives to BPF_PROG_TEST_RUN; the key in it is in the sender's batch, which nobody else can
// read. No packet that comes from a device has such bytes before it. So who attaches this program to a device gets nothing from it but
// that all packets pass. The program reads no memory but the batch, whichever process it interrupts.
// Layouts: twin of src/af_xdp/inject.rs.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#define ROWS_MAX 4096
#define BATCH_FRAMES_MAX 256 // a power of two: the index is masked for the verifier
#define FRAME_BYTES_MAX 1536
// An odd number of cache lines: the first lines of all slots are in different sets of the cache.
#define SLOT_BYTES 1600

struct token {
    __u32 row;
    __u32 reserved;
    __u64 key[2];
};

struct slot {
    __u8 bytes[SLOT_BYTES];
};

struct batch {
    __u64 key[2];
    __u32 row;
    __u32 next;  // the slot the next run sends
    __u32 count; // slots in use
    __u32 reserved[9];
    __u16 lengths[BATCH_FRAMES_MAX];
    struct slot slots[BATCH_FRAMES_MAX];
};

struct batch_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(struct batch));
    __uint(max_entries, 1);
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, ROWS_MAX);
    __array(values, struct batch_map);
} batches SEC(".maps");

// The device, named by reference: its number would be looked up in the sender's namespace.
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __type(key, __u32);
    __type(value, struct bpf_devmap_val);
    __uint(max_entries, ROWS_MAX);
} devices SEC(".maps");

SEC("xdp")
int inject(struct xdp_md *context) {
    void *data = (void *)(long)context->data;
    struct token *token = (void *)(long)context->data_meta;
    if ((void *)(token + 1) > data)
        return XDP_PASS;
    __u32 row = token->row, first = 0;
    __u64 key[2] = {token->key[0], token->key[1]};
    void *map = bpf_map_lookup_elem(&batches, &row);
    if (!map)
        return XDP_DROP;
    struct batch *batch = bpf_map_lookup_elem(map, &first);
    if (!batch || batch->key[0] != key[0] || batch->key[1] != key[1])
        return XDP_DROP;
    // Without a device, because it is gone or takes no frames now, nothing is consumed: the sender has another way.
    if (!bpf_map_lookup_elem(&devices, &row))
        return XDP_DROP;
    // Its sender may write to the batch meanwhile, or run it on another processor: each value is read once.
    __u32 at = *(volatile __u32 *)&batch->next;
    if (at >= *(volatile __u32 *)&batch->count)
        return XDP_DROP;
    __u32 length = *(volatile __u16 *)&batch->lengths[at & (BATCH_FRAMES_MAX - 1)];
    if (length < ETH_HLEN || length > FRAME_BYTES_MAX)
        return XDP_DROP;
    // The token goes no further: an AF_XDP socket would be given it with the frame.
    if (bpf_xdp_adjust_meta(context, sizeof(struct token)))
        return XDP_DROP;
    if (bpf_xdp_adjust_tail(context, (int)length - (int)bpf_xdp_get_buff_len(context)))
        return XDP_DROP;
    if (bpf_xdp_store_bytes(context, 0, batch->slots[at & (BATCH_FRAMES_MAX - 1)].bytes, length))
        return XDP_DROP;
    *(volatile __u32 *)&batch->next = at + 1;
    return bpf_redirect_map(&devices, row, XDP_DROP);
}

char _license[] SEC("license") = "Apache-2.0";
