/* libqanat-native: the native API of Qanat, for C. See docs/native.md.
 * This file is made of crates/native by `QANAT_UPDATE=1 cargo test --package qanat-native --test header`.
 *
 * A pointer that is not null is to what its type says, and a text ends with a zero byte. A `qanat` is used by the thread that started it, and
 * not from within another call: QANAT_STATUS_BUSY says so. A handle is a number; its low 32 bits are a slot, dense from 0, so a
 * program may keep what it knows of a connection in an array. Where a place for a result is said to be optional, it may be null.
 */

#ifndef QANAT_NATIVE_H
#define QANAT_NATIVE_H

#include <stddef.h>
#include <stdint.h>

// The number of this interface. Functions are added without a change of it; whatever else changes is another number, and another
// `libqanat-native.so`.
#define QANAT_VERSION 1

// A value that is none: for `qanat_set`.
#define QANAT_NONE UINT64_MAX

// What happened.
typedef enum qanat_event_kind {
    // A peer has connected. `object`: the connection, which begins with this; `token`: the listener; `address`: the peer.
    QANAT_EVENT_ACCEPTED = 1,
    // A connection of one's own is established. `object`: the connection, which began with `qanat_connect`.
    QANAT_EVENT_CONNECTED = 2,
    // The next bytes of a connection, in `data`; they are lent by `memory`. Until that is released the peer may send so much less.
    QANAT_EVENT_DATA = 3,
    // The peer has acknowledged bytes. `object`: the connection; `token`: how many more than before. What was lent for them is free. In
    // the kernel placement it means that the kernel has taken them.
    QANAT_EVENT_ACKED = 4,
    // The peer calls a byte urgent (RFC 6093). `object`: the connection; `token`: how many bytes come before it.
    QANAT_EVENT_URGENT = 5,
    // The peer sends no more on the connection `object`. This side still may.
    QANAT_EVENT_PEER_CLOSED = 6,
    // The connection `object` is gone, and its handle with it. `status`: a `qanat_close_reason`.
    QANAT_EVENT_CLOSED = 7,
    // A datagram, in `data`, lent by `memory`. `object`: the socket; `address`: its sender.
    QANAT_EVENT_DATAGRAM = 8,
    // A timer. `object`: the timer, which is gone; `token`: as it was set.
    QANAT_EVENT_TIMER = 9,
    // Somebody else has the address `address`: it is not used any more, and the next `qanat_next` fails. `token`: the Ethernet address of
    // that host, its first byte highest of six.
    QANAT_EVENT_ADDRESS_CONFLICT = 10,
    // The descriptor that is watched with `token` is readable. It is told again until it is not.
    QANAT_EVENT_READABLE = 11,
    // `qanat_wake` was called.
    QANAT_EVENT_WOKEN = 12,
    // A read from the area `object` has ended. `token`: as it was given; `status`: 0, or an `errno`; `data`, lent by `memory`: what was read.
    QANAT_EVENT_READ = 13,
    // A write to an area has ended. As `QANAT_EVENT_READ`; `memory` is the block that was written.
    QANAT_EVENT_WRITTEN = 14,
    // A flush of an area has ended. `object`, `token`, `status` as of a read.
    QANAT_EVENT_FLUSHED = 15,
    // A writing of zeroes has ended. `object`, `token`, `status` as of a read.
    QANAT_EVENT_ZEROED = 16,
} qanat_event_kind;

// Why a connection ended: `status` of `QANAT_EVENT_CLOSED`.
typedef enum qanat_close_reason {
    // Both sides closed in order.
    QANAT_CLOSE_REASON_FINISHED = 0,
    // The peer reset it.
    QANAT_CLOSE_REASON_RESET_BY_PEER = 1,
    // This side reset it.
    QANAT_CLOSE_REASON_ABORTED = 2,
    // No answer in time.
    QANAT_CLOSE_REASON_TIMED_OUT = 3,
    // The peer refused the attempt.
    QANAT_CLOSE_REASON_REFUSED = 4,
    // The host can't be reached.
    QANAT_CLOSE_REASON_UNREACHABLE = 5,
    // There is no route to its network.
    QANAT_CLOSE_REASON_NETWORK_UNREACHABLE = 6,
    // The host does not speak TCP.
    QANAT_CLOSE_REASON_PROTOCOL_UNREACHABLE = 7,
    // A filter on the way prohibits it.
    QANAT_CLOSE_REASON_PROHIBITED = 8,
    // The packet met its hop limit.
    QANAT_CLOSE_REASON_HOP_LIMIT_EXCEEDED = 9,
} qanat_close_reason;

// TCP Fast Open (RFC 7413) of a connection that is made: what is sent at once leaves with the SYN.
typedef enum qanat_fast_open {
    // Not.
    QANAT_FAST_OPEN_NO = 0,
    // If the server has given a cookie before; if not, one is asked for.
    QANAT_FAST_OPEN_WITH_COOKIE = 1,
    // Without one: the server is known to accept that.
    QANAT_FAST_OPEN_WITHOUT_COOKIE = 2,
} qanat_fast_open;

// What of a connection can be set. QANAT_NONE means none, where there may be none.
typedef enum qanat_setting {
    // 1: small segments leave at once (Nagle's algorithm is off). 0: they wait.
    QANAT_SETTING_NO_DELAY = 0,
    // 1: what does not fill a segment is held back until this is 0 again.
    QANAT_SETTING_CORK = 1,
    // Nanoseconds that what was sent may stay unacknowledged; or none.
    QANAT_SETTING_USER_TIMEOUT = 2,
    // Bytes a second at most; or none.
    QANAT_SETTING_PACING_RATE = 3,
    // The receive window at most, in bytes; or none.
    QANAT_SETTING_RECEIVE_WINDOW_MAX = 4,
    // Congestion control: 0 is CUBIC, 1 NewReno, 2 BBR.
    QANAT_SETTING_CONGESTION = 5,
} qanat_setting;

// What differs between placements.
typedef enum qanat_capability {
    // QANAT_EVENT_ACKED means that the peer has the bytes.
    QANAT_CAPABILITY_ACKNOWLEDGES = 0,
    // `qanat_send_room` knows.
    QANAT_CAPABILITY_TELLS_SEND_ROOM = 1,
    // `qanat_connect` obeys `fast_open`.
    QANAT_CAPABILITY_FAST_OPEN = 2,
    // There may be QANAT_EVENT_URGENT.
    QANAT_CAPABILITY_URGENT = 3,
    // There may be QANAT_EVENT_ADDRESS_CONFLICT.
    QANAT_CAPABILITY_ADDRESS_CONFLICTS = 4,
} qanat_capability;

// How a call went.
typedef enum qanat_status_code {
    // It was done, or has begun.
    QANAT_STATUS_OK = 0,
    // The object that a handle means is gone: it was closed or released, or has ended.
    QANAT_STATUS_STALE = -1,
    // A limit is reached: connections, bytes that wait to be sent, requests or buffers of an area, timers. Again after some events.
    QANAT_STATUS_FULL = -2,
    // The address or port is in use.
    QANAT_STATUS_IN_USE = -3,
    // Not one of one's own addresses, or there is no way to the peer.
    QANAT_STATUS_UNREACHABLE = -4,
    // The sending side is shut down.
    QANAT_STATUS_NOT_SENDING = -5,
    // This placement does not have it.
    QANAT_STATUS_UNSUPPORTED = -6,
    // Longer than the protocol, the buffer or the device allows.
    QANAT_STATUS_TOO_LONG = -7,
    // An argument is wrong: a null pointer, a number that means nothing, memory of another kind. `qanat_last_error` says which.
    QANAT_STATUS_INVALID = -8,
    // The call came from within another one (`release` of `qanat_lend` calls nothing of this library), or from another thread than the one that
    // called `qanat_start`.
    QANAT_STATUS_BUSY = -9,
    // It can't be started, or can't go on. `qanat_last_error` says why, and the remedy.
    QANAT_STATUS_FAILED = -10,
} qanat_status_code;

// What is asked for before the start.
typedef struct qanat_options qanat_options;

// A program's stack, wherever that is.
typedef struct qanat qanat;

// How a call went: a `qanat_status_code`. 0 is good; what is less than 0 was refused.
typedef int32_t qanat_status;

// An IP address and a port.
typedef struct qanat_address {
    // The address in network order: IPv4 has 4 bytes, and the others are 0.
    uint8_t ip[16];
    // The port, in the machine's own order.
    uint16_t port;
    // 4 or 6; 0: none.
    uint8_t family;
    // 0.
    uint8_t reserved[5];
} qanat_address;

// An event. What a kind says nothing of is 0.
typedef struct qanat_event {
    // What happened: a `qanat_event_kind`. There may be more kinds in a newer library.
    uint32_t kind;
    // How it went.
    int32_t status;
    // Whom it is about: a connection, a socket, a timer, an area.
    uint64_t object;
    // As each kind has it.
    uint64_t token;
    // What lends `data`, to be released.
    uint64_t memory;
    // Bytes, as long as `memory` is not released. Not to be written: `qanat_writable` gives them for that.
    const uint8_t *data;
    // How many.
    size_t length;
    // The other side.
    struct qanat_address address;
} qanat_event;

// Is called once, when lent bytes are not needed any more.
typedef void (*qanat_release_function)(void *state);

// A block of memory to fill.
typedef struct qanat_block {
    // The number that it is sent, written and released by.
    uint64_t memory;
    // Its bytes, to be written until it is sealed or given away.
    uint8_t *data;
    // How many.
    size_t length;
} qanat_block;

// What an area is like.
typedef struct qanat_geometry {
    // Blocks there are.
    uint64_t blocks;
    // Bytes in a block, the unit of offsets and lengths: a power of two, at least 512.
    uint32_t block_bytes;
    // So many bytes, aligned to themselves, are written wholly or not at all when power fails.
    uint32_t atomic_bytes;
    // Bytes that one request may have at most.
    uint32_t transfer_bytes_max;
    // Requests that may be under way at once.
    uint32_t depth;
    // 1: what was written can be lost until a flush.
    uint8_t volatile_cache;
    // 0.
    uint8_t reserved[7];
} qanat_geometry;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The number of the interface that the library has: QANAT_VERSION of the header that it goes with.
uint32_t qanat_version(void);

// What a status means, in English.
const char *qanat_status_text(int32_t status);

// Why a connection ended, in English: `status` of QANAT_EVENT_CLOSED.
const char *qanat_close_reason_text(int32_t reason);

// Why a call of this thread was refused with QANAT_STATUS_INVALID or QANAT_STATUS_FAILED, the last of them, and the remedy. It is good until
// the next such call.
const char *qanat_last_error(void);

// Reads an address and port: `10.77.0.2:80`, `[fd77::2]:80`.
qanat_status qanat_address_parse(const char *written, struct qanat_address *address);

// Writes an address and port into `size` bytes, with a zero byte at its end: 64 are always enough.
qanat_status qanat_address_text(const struct qanat_address *address, char *text, size_t size);

// New options: a card of the daemon's if one listens, else one of the program's own, which takes root; at 10.77.0.2/24. Freed by
// `qanat_options_free`.
struct qanat_options *qanat_options_new(void);

// Sets an option by its name, or adds to one that may be repeated. docs/native.md has them all.
qanat_status qanat_options_set(struct qanat_options *options, const char *name, const char *value);

// Frees options. A null pointer is good.
void qanat_options_free(struct qanat_options *options);

// Starts a stack where the options say. A null pointer for the usual options. `*qanat` is to be used by this thread only, and ended by
// `qanat_end`, before the thread ends. Several may be started, each by a thread of its own.
qanat_status qanat_start(const struct qanat_options *options,
                         struct qanat **qanat);

// Takes turns until something happens. `*events` are `*count` events, in order, and good until the next call of this function. They are
// waited for `patience_ns` nanoseconds at most: 0 does not wait, less than 0 waits without end. If nothing has happened by then, there
// are none, and the status is QANAT_STATUS_OK. What was commanded since the last call is sent first.
//
// QANAT_STATUS_FAILED: the card, the interface or every net core is gone, with all connections, or somebody else has an own address. Nothing
// more comes then: end it, and start anew.
qanat_status qanat_next(struct qanat *qanat,
                        int64_t patience_ns,
                        const struct qanat_event **events,
                        size_t *count);

// Has `qanat_next` return with QANAT_EVENT_WOKEN. It may be called from any thread, and from a signal handler, as long as `qanat` has not been
// ended.
void qanat_wake(const struct qanat *qanat);

// Has `qanat_next` tell of QANAT_EVENT_READABLE with `token` as long as the descriptor is readable: the program reads it. The
// descriptor may be closed afterwards; `qanat_unwatch` ends the watch.
qanat_status qanat_watch(struct qanat *qanat,
                         int32_t descriptor,
                         uint64_t token);

// Ends the watch over all that was given with `token`.
qanat_status qanat_unwatch(struct qanat *qanat, uint64_t token);

// Nanoseconds by the clock that timers go by. It has no date.
qanat_status qanat_now(struct qanat *qanat, uint64_t *nanoseconds);

// The `index`th address that the stack has, from 0 on; its port is 0. QANAT_STATUS_STALE: there are fewer. With the kernel
// placement these are the addresses of the options; none means all of the machine's.
qanat_status qanat_address_at(struct qanat *qanat,
                              size_t index,
                              struct qanat_address *address);

// Sets a timer: QANAT_EVENT_TIMER with `token` follows after so many nanoseconds. `timer` may be null.
qanat_status qanat_set_timer(struct qanat *qanat, uint64_t after_ns, uint64_t token, uint64_t *timer);

// Forgets a timer. QANAT_STATUS_STALE: it is not pending any more.
qanat_status qanat_cancel_timer(struct qanat *qanat, uint64_t timer);

// Whether this placement of the stack has a `qanat_capability`. QANAT_STATUS_UNSUPPORTED: it does not.
qanat_status qanat_has(struct qanat *qanat, uint32_t capability);

// Resets all connections that have not ended, and frees everything: card, areas, connections. A connection that was closed and has not
// ended yet is reset, too: what it had left to send is lost, so wait for its QANAT_EVENT_CLOSED first. Memory that was lent to the program may
// not be touched any more; what the program has lent is released. A null pointer is good. QANAT_STATUS_BUSY: from another thread, or from within
// another call; nothing is freed.
qanat_status qanat_end(struct qanat *qanat);

// Accepts connections at an own address and port (`0.0.0.0`: all of IPv4). QANAT_EVENT_ACCEPTED tells of each. `backlog`: half-open
// connections at most; 0: only the stack's limit. `listener` may be null.
qanat_status qanat_listen(struct qanat *qanat,
                          const struct qanat_address *local,
                          size_t backlog,
                          uint64_t *listener);

// Stops accepting. Connections that were accepted go on.
qanat_status qanat_close_listener(struct qanat *qanat, uint64_t listener);

// Connects to a peer. The connection begins here: QANAT_EVENT_CONNECTED follows, or QANAT_EVENT_CLOSED. `local`: an own address and port, or null for any. `fast_open`: a
// `qanat_fast_open`. What is sent before the connection is established leaves when it is.
qanat_status qanat_connect(struct qanat *qanat,
                           const struct qanat_address *peer,
                           const struct qanat_address *local,
                           uint32_t fast_open,
                           uint64_t *connection);

// Resets a connection that was just accepted.
qanat_status qanat_refuse(struct qanat *qanat, uint64_t connection);

// Sends bytes after those that were given before. They are copied: the program may change its own at once.
qanat_status qanat_send(struct qanat *qanat, uint64_t connection, const uint8_t *data, size_t length);

// Sends bytes without a copy: they are lent until `release` is called with `state`, once, also if the call is refused. Until
// then they may not change. `release` may be null if they never do, as constants. It is called from within this or another call, and
// must not call anything of this library.
qanat_status qanat_lend(struct qanat *qanat,
                        uint64_t connection,
                        const uint8_t *data,
                        size_t length,
                        qanat_release_function release,
                        void *state);

// Sends a block that was filled and sealed, without a copy if the stack can reach it. The block stays lent: it may be sent again, on
// other connections, too, until it is released. Then it goes when the last byte was acknowledged.
qanat_status qanat_send_block(struct qanat *qanat,
                              uint64_t connection,
                              uint64_t block);

// Bytes that would be sent at once if they were given now; less than 0: so many wait already. QANAT_STATUS_UNSUPPORTED: this placement
// does not know, or the connection is gone.
qanat_status qanat_send_room(struct qanat *qanat,
                             uint64_t connection,
                             int64_t *room);

// Sends FIN after everything that was given. Receiving goes on.
qanat_status qanat_shutdown(struct qanat *qanat, uint64_t connection);

// Sends everything that was given, then FIN, and receives no more. QANAT_EVENT_CLOSED follows. A connection that is not established yet ends at
// once, and what was given to it may be lost (RFC 9293 section 3.10.4): shut it down instead.
qanat_status qanat_close(struct qanat *qanat,
                         uint64_t connection);

// Sends RST. QANAT_EVENT_CLOSED follows.
qanat_status qanat_abort(struct qanat *qanat, uint64_t connection);

// Changes how a connection behaves: a `qanat_setting` and its value.
qanat_status qanat_set(struct qanat *qanat, uint64_t connection, uint32_t kind, uint64_t value);

// Has an idle peer asked whether it is there (RFC 9293 section 3.8.4): after `idle_ms`, then every `interval_ms`, `probes` times.
// `probes` 0: not.
qanat_status qanat_set_keepalive(struct qanat *qanat,
                                 uint64_t connection,
                                 uint32_t idle_ms,
                                 uint32_t interval_ms,
                                 uint8_t probes);

// Opens a UDP socket at an own address and port. QANAT_EVENT_DATAGRAM tells of what comes. `socket` may be null.
qanat_status qanat_bind_udp(struct qanat *qanat, const struct qanat_address *local, uint64_t *socket);

// Closes a UDP socket.
qanat_status qanat_close_udp(struct qanat *qanat, uint64_t socket);

// Sends a datagram. If the device has no room, it is lost, as any datagram may be.
qanat_status qanat_send_to(struct qanat *qanat,
                           uint64_t socket,
                           const struct qanat_address *peer,
                           const uint8_t *data,
                           size_t length);

// Sends a datagram's memory back, or on, without a copy: an answer in the frame that its question came in. `qanat_writable` gives its bytes to
// be written. The memory is not lent any more, unless the status is QANAT_STATUS_INVALID or QANAT_STATUS_BUSY.
qanat_status qanat_send_memory_to(struct qanat *qanat,
                                  uint64_t socket,
                                  const struct qanat_address *peer,
                                  uint64_t memory);

// Gives memory to fill, and to send without a copy: for `length` bytes, or fewer, as `block->length` says (a net core has blocks of 65,536 at
// most). The program fills it, seals it, sends it as often as it likes, and releases it.
qanat_status qanat_block_new(struct qanat *qanat,
                             size_t length,
                             struct qanat_block *block);

// Ends the filling of a block: its first `length` bytes can be sent from now on, and not be written any more.
qanat_status qanat_block_seal(struct qanat *qanat, uint64_t block, size_t length);

// Makes lent memory `length` bytes long and gives its bytes to be written: a datagram that is to be sent back, a block that is not sealed, what
// was read from an area. What is new at the end has any bytes. What a connection has received is only to be read: QANAT_STATUS_INVALID.
// QANAT_STATUS_TOO_LONG: there is no room for so many.
qanat_status qanat_writable(struct qanat *qanat,
                            uint64_t memory,
                            size_t length,
                            uint8_t **data);

// Gives memory back: what an event has lent, or a block. If it is of a connection, the peer may send so much more.
qanat_status qanat_release(struct qanat *qanat, uint64_t memory);

// Says what an area is like.
qanat_status qanat_area_geometry(struct qanat *qanat, uint64_t area, struct qanat_geometry *geometry);

// Gives a buffer of an area, to fill and to write without a copy. It may be sealed and sent, too. QANAT_STATUS_FULL: all are in use.
qanat_status qanat_area_block(struct qanat *qanat,
                              uint64_t area,
                              struct qanat_block *block);

// Reads `length` bytes from `offset` on, both of whole blocks. QANAT_EVENT_READ with `token` follows. QANAT_STATUS_FULL: again after an
// event of this area.
qanat_status qanat_read(struct qanat *qanat,
                        uint64_t area,
                        uint64_t offset,
                        size_t length,
                        uint64_t token);

// Writes the first `length` bytes of a block at `offset`, both of whole blocks. QANAT_EVENT_WRITTEN with `token` follows, and lends the block
// again. `is_durable` 1: it survives a loss of power then; 0: only after a flush. If this is refused with QANAT_STATUS_FULL, the block is given
// away all the same; with any other status it stays as it was.
qanat_status qanat_write(struct qanat *qanat,
                         uint64_t area,
                         uint64_t offset,
                         uint64_t block,
                         size_t length,
                         uint8_t is_durable,
                         uint64_t token);

// Makes durable all writes that have ended. QANAT_EVENT_FLUSHED with `token` follows.
qanat_status qanat_flush(struct qanat *qanat, uint64_t area, uint64_t token);

// Writes `length` zeroes from `offset` on, as many as wished. QANAT_EVENT_ZEROED with `token` follows.
qanat_status qanat_write_zeroes(struct qanat *qanat, uint64_t area, uint64_t offset, uint64_t length, uint64_t token);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QANAT_NATIVE_H */
