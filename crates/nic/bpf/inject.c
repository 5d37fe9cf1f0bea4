// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Sends a batch of frames through a device without a socket buffer for each: run by BPF_PROG_TEST_RUN with live frames
// (Linux 5.18), once per frame, in the sender's own system call. Each run copies the next frame of the batch from the
// sender's memory, where it stays the sender's, into a page of the kernel's and redirects it to the device: through
// `ndo_xdp_xmit`, which veth passes on as it is. The licence is what `bpf_probe_read_user` asks for.
// Layouts: twin of src/af_xdp/inject.rs.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#define BATCH_FRAMES_MAX 256 // a power of two: the index is masked for the verifier
#define FRAME_BYTES_MAX 1536

struct slot {
    __u64 address; // in the caller's address space
    __u32 length;
    __u32 reserved;
};

struct batch {
    __u32 next;  // the slot the next run sends
    __u32 count; // slots in use
    struct slot slots[BATCH_FRAMES_MAX];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct batch);
    __uint(max_entries, 1);
} batches SEC(".maps");

// The verifier lets no helper read user memory straight into a packet.
struct frame {
    __u8 bytes[FRAME_BYTES_MAX];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, struct frame);
    __uint(max_entries, 1);
} frames SEC(".maps");

// The device, named by reference: its number would be looked up in the sender's namespace.
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __type(key, __u32);
    __type(value, struct bpf_devmap_val);
    __uint(max_entries, 1);
} devices SEC(".maps");

// Every run starts with a frame of FRAME_BYTES_MAX bytes of no meaning.
SEC("xdp")
int inject(struct xdp_md *context) {
    __u32 first = 0;
    struct batch *batch = bpf_map_lookup_elem(&batches, &first);
    struct frame *frame = bpf_map_lookup_elem(&frames, &first);
    if (!batch || !frame)
        return XDP_DROP;
    __u32 at = batch->next;
    if (at >= batch->count)
        return XDP_DROP;
    struct slot *slot = &batch->slots[at & (BATCH_FRAMES_MAX - 1)];
    __u32 length = slot->length;
    if (length >= ETH_HLEN && length <= FRAME_BYTES_MAX
        && !bpf_probe_read_user(frame->bytes, length, (const void *)slot->address)
        && !bpf_xdp_adjust_tail(context, (int)length - FRAME_BYTES_MAX)
        && !bpf_xdp_store_bytes(context, 0, frame->bytes, length)) {
        batch->next = at + 1;
        return bpf_redirect_map(&devices, 0, 0);
    }
    // Not to be read without a page fault, which can't be had here: the sender sees where its batch has stopped.
    return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
