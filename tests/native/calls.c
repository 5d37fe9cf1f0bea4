/* Every call of libqanat-native, and what it refuses, in one program that ends with 1 at the first surprise.
 *
 *  calls OWN PEER NAME=VALUE...
 *
 * OWN: the stack's address; PEER: one of this machine's, for sockets of the kernel's that talk to it. The options have an area of 1 MiB, `file`
 * or `area`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <qanat-native.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SURE(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (%s; errno %d)\n", __FILE__, __LINE__, #condition, qanat_last_error(), errno); \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define SECOND INT64_C(1000000000)
#define OK QANAT_STATUS_OK

static qanat *q;
static const char *own, *peer;

/* The next event of a kind; others are given back what they lend. */
static qanat_event next_of(qanat_event_kind kind) {
    static qanat_event kept[4096];
    static size_t first, last;
    for (int turns = 0; turns < 1000; turns++) {
        while (first < last) {
            qanat_event event = kept[first++];
            if (event.kind == kind)
                return event;
            if (event.memory)
                qanat_release(q, event.memory);
        }
        const qanat_event *events;
        size_t count;
        SURE(qanat_next(q, 20 * SECOND, &events, &count) == OK);
        SURE(count > 0 && count <= 4096);
        memcpy(kept, events, count * sizeof *events);
        first = 0;
        last = count;
    }
    fprintf(stderr, "no event of kind %d\n", kind);
    exit(1);
}

static qanat_address at(const char *ip, int port) {
    char text[80];
    qanat_address address;
    snprintf(text, sizeof text, strchr(ip, ':') ? "[%s]:%d" : "%s:%d", ip, port);
    SURE(qanat_address_parse(text, &address) == OK);
    SURE(address.port == port && address.family == (strchr(ip, ':') ? 6 : 4));
    char back[64];
    SURE(qanat_address_text(&address, back, sizeof back) == OK && strcmp(text, back) == 0);
    SURE(qanat_address_text(&address, back, strlen(text)) == QANAT_STATUS_INVALID);
    return address;
}

/* An address as the kernel's sockets have it: IPv4 only. */
static struct sockaddr_in kernel_address(const char *ip, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    SURE(inet_pton(AF_INET, ip, &address.sin_addr) == 1);
    return address;
}

static void say_all(int socket, const char *text) {
    SURE(write(socket, text, strlen(text)) == (ssize_t)strlen(text));
}

static void hear(int socket, char *into, size_t count) {
    for (size_t had = 0; had < count;) {
        ssize_t some = read(socket, into + had, count - had);
        SURE(some > 0);
        had += some;
    }
}

static int dial(const char *ip, int port) {
    int made = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = kernel_address(ip, port);
    struct timeval patience = {.tv_sec = 20};
    SURE(setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    SURE(connect(made, (struct sockaddr *)&address, sizeof address) == 0);
    return made;
}

static void *dials(void *into) {
    *(int *)into = dial(own, 7100);
    return NULL;
}

static void refusals(void) {
    qanat_options *options = qanat_options_new();
    SURE(qanat_version() == QANAT_VERSION);
    SURE(qanat_options_set(options, "colour", "blue") == QANAT_STATUS_INVALID);
    SURE(strstr(qanat_last_error(), "colour"));
    SURE(qanat_options_set(options, "placement", "elsewhere") == QANAT_STATUS_INVALID);
    SURE(qanat_options_set(options, NULL, "x") == QANAT_STATUS_INVALID);
    SURE(qanat_options_set(options, "name", "\xff") == QANAT_STATUS_INVALID);
    SURE(qanat_options_set(NULL, "name", "x") == QANAT_STATUS_INVALID);
    SURE(qanat_options_set(options, "file", "/nowhere/disk") == OK);
    SURE(qanat_options_set(options, "placement", "kernel") == OK);
    qanat *none = (qanat *)&options;
    SURE(qanat_start(options, &none) == QANAT_STATUS_FAILED && !none);
    SURE(strstr(qanat_last_error(), "/nowhere/disk"));
    SURE(qanat_options_set(options, "gateway", "10.0.0.1") == OK);
    SURE(qanat_start(options, &none) == QANAT_STATUS_FAILED && strstr(qanat_last_error(), "gateway"));
    qanat_options_free(options);
    qanat_options_free(NULL);
    SURE(qanat_start(NULL, NULL) == QANAT_STATUS_INVALID);
    qanat_address address;
    SURE(qanat_address_parse("10.0.0.1", &address) == QANAT_STATUS_INVALID);
    SURE(qanat_address_parse(NULL, &address) == QANAT_STATUS_INVALID);
    const qanat_event *events;
    size_t number;
    SURE(qanat_next(NULL, 0, &events, &number) == QANAT_STATUS_INVALID);
    SURE(qanat_address_parse("10.0.0.1:80", NULL) == QANAT_STATUS_INVALID);
    SURE(qanat_address_parse("[fe80::1%3]:80", &address) == QANAT_STATUS_INVALID);
    SURE(qanat_release(NULL, 1) == QANAT_STATUS_INVALID);
    SURE(qanat_end(NULL) == OK);
    qanat_wake(NULL);
    for (int status = 0; status >= -10; status--)
        SURE(strcmp(qanat_status_text(status), "unknown") != 0);
    SURE(strcmp(qanat_status_text(-11), "unknown") == 0 && strcmp(qanat_status_text(1), "unknown") == 0);
    SURE(strcmp(qanat_close_reason_text(QANAT_CLOSE_REASON_FINISHED), "finished") == 0);
}

static void *of_another_thread(void *unused) {
    (void)unused;
    SURE(qanat_set_timer(q, 1, 1, NULL) == QANAT_STATUS_BUSY);
    SURE(qanat_end(q) == QANAT_STATUS_BUSY);
    qanat_wake(q);
    return NULL;
}

static void *writes(void *end) {
    usleep(50 * 1000);
    SURE(write(*(int *)end, "x", 1) == 1);
    return NULL;
}

static void timers_bells_and_threads(void) {
    const qanat_event *events = (const qanat_event *)&q;
    size_t count = 7;
    uint64_t before, after, timer;
    SURE(qanat_next(q, 0, NULL, &count) == QANAT_STATUS_INVALID && qanat_now(q, NULL) == QANAT_STATUS_INVALID);
    SURE(qanat_next(q, 0, &events, &count) == OK && count == 0 && !events);
    /* The time that a timer counts from is that of the call, however long the program has been away. */
    usleep(40 * 1000);
    SURE(qanat_now(q, &before) == OK);
    SURE(qanat_set_timer(q, 20 * 1000 * 1000, 42, &timer) == OK);
    SURE(qanat_next(q, 0, &events, &count) == OK && count == 0);
    qanat_event event = next_of(QANAT_EVENT_TIMER);
    SURE(event.token == 42 && event.object == timer);
    SURE(qanat_now(q, &after) == OK && after - before >= 20 * 1000 * 1000);
    SURE(qanat_cancel_timer(q, timer) == QANAT_STATUS_STALE);
    SURE(qanat_set_timer(q, 3600 * SECOND, 1, &timer) == OK && qanat_cancel_timer(q, timer) == OK);

    int ends[2];
    SURE(pipe(ends) == 0);
    SURE(qanat_watch(q, ends[0], UINT64_MAX) == QANAT_STATUS_INVALID);
    SURE(qanat_watch(q, -1, 1) == QANAT_STATUS_INVALID);
    SURE(qanat_watch(q, ends[0], 9) == OK);
    SURE(write(ends[1], "x", 1) == 1);
    SURE(next_of(QANAT_EVENT_READABLE).token == 9);
    SURE(qanat_unwatch(q, 9) == OK);
    /* Nobody holds its end any more. */
    close(ends[0]);
    SURE(write(ends[1], "x", 1) < 0 && errno == EPIPE);
    while (qanat_next(q, 0, &events, &count) == OK && count > 0)
        continue;
    /* Another one, which has the number that the first had within the library. */
    int others[2];
    SURE(pipe(others) == 0 && qanat_watch(q, others[0], 10) == OK);
    pthread_t writer;
    SURE(pthread_create(&writer, NULL, writes, &others[1]) == 0);
    SURE(next_of(QANAT_EVENT_READABLE).token == 10);
    pthread_join(writer, NULL);
    /* Told by a loop that never waits, too. */
    do
        SURE(qanat_next(q, 0, &events, &count) == OK);
    while (count == 0);
    SURE(events[0].kind == QANAT_EVENT_READABLE && qanat_unwatch(q, 10) == OK);

    pthread_t thread;
    SURE(pthread_create(&thread, NULL, of_another_thread, NULL) == 0);
    next_of(QANAT_EVENT_WOKEN);
    pthread_join(thread, NULL);
    SURE(qanat_has(q, 99) == QANAT_STATUS_INVALID);
    SURE(qanat_has(q, QANAT_CAPABILITY_URGENT) != QANAT_STATUS_INVALID);
}

static int released;

static void release(void *state) {
    SURE(state == &released);
    /* Nothing of the library may be called from here. */
    SURE(qanat_set_timer(q, 1, 1, NULL) == QANAT_STATUS_BUSY);
    released++;
}

static void *client(void *unused) {
    (void)unused;
    int made = dial(own, 7100);
    say_all(made, "question");
    char heard[64] = "";
    hear(made, heard, 24);
    SURE(strcmp(heard, "copied lent block block ") == 0);
    close(made);
    return NULL;
}

static void a_server(void) {
    qanat_address local = at("0.0.0.0", 7100), nowhere = {0};
    uint64_t listener, again;
    SURE(qanat_listen(q, &nowhere, 0, NULL) == QANAT_STATUS_INVALID);
    SURE(qanat_listen(q, NULL, 0, NULL) == QANAT_STATUS_INVALID);
    SURE(qanat_listen(q, &local, 0, &listener) == OK);
    SURE(qanat_listen(q, &local, 0, &again) == QANAT_STATUS_IN_USE);
    pthread_t thread;
    SURE(pthread_create(&thread, NULL, client, NULL) == 0);
    qanat_event event = next_of(QANAT_EVENT_ACCEPTED);
    uint64_t connection = event.object;
    SURE(event.token == listener && event.address.family == 4 && event.address.port != 0);
    SURE(qanat_set(q, connection, QANAT_SETTING_NO_DELAY, 1) == OK);
    SURE(qanat_set(q, connection, QANAT_SETTING_USER_TIMEOUT, QANAT_NONE) == OK);
    SURE(qanat_set(q, connection, 77, 1) == QANAT_STATUS_INVALID);
    SURE(qanat_set(q, connection, QANAT_SETTING_CONGESTION, 3) == QANAT_STATUS_INVALID);
    SURE(qanat_set_keepalive(q, connection, 60000, 5000, 3) == OK);
    event = next_of(QANAT_EVENT_DATA);
    SURE(event.object == connection && event.length == 8 && memcmp(event.data, "question", 8) == 0);
    SURE(qanat_block_seal(q, event.memory, 1) == QANAT_STATUS_INVALID);
    SURE(qanat_send_block(q, connection, event.memory) == QANAT_STATUS_INVALID);
    SURE(qanat_write(q, 0, 0, event.memory, 8, 1, 1) == QANAT_STATUS_INVALID);
    uint8_t *received;
    SURE(qanat_writable(q, event.memory, 8, &received) == QANAT_STATUS_INVALID);
    SURE(qanat_release(q, event.memory) == OK && qanat_release(q, event.memory) == QANAT_STATUS_STALE);
    SURE(qanat_release(q, 0) == QANAT_STATUS_STALE);

    SURE(qanat_send(q, connection, NULL, 3) == QANAT_STATUS_INVALID);
    SURE(qanat_send(q, connection, (const uint8_t *)"copied ", 7) == OK);
    static uint8_t lent[5] = "lent ";
    SURE(qanat_lend(q, connection, lent, 5, release, &released) == OK);
    SURE(qanat_lend(q, connection ^ 1 << 20, lent, 5, release, &released) == QANAT_STATUS_STALE && released >= 1);
    SURE(qanat_lend(q, connection, NULL, 5, release, &released) == QANAT_STATUS_INVALID && released >= 2);
    qanat_block block;
    SURE(qanat_block_new(q, 0, &block) == QANAT_STATUS_INVALID && qanat_block_new(q, 8, NULL) == QANAT_STATUS_INVALID);
    SURE(qanat_block_new(q, 100, &block) == OK && block.length >= 100);
    memcpy(block.data, "block ", 6);
    SURE(qanat_send_block(q, connection, block.memory) == QANAT_STATUS_INVALID);
    SURE(qanat_block_seal(q, block.memory, block.length + 1) == QANAT_STATUS_TOO_LONG);
    SURE(qanat_block_seal(q, block.memory, 6) == OK);
    SURE(qanat_block_seal(q, block.memory, 6) == QANAT_STATUS_INVALID);
    uint8_t *written;
    SURE(qanat_writable(q, block.memory, 6, &written) == QANAT_STATUS_INVALID);
    /* The same memory twice, and given back before it has left. */
    SURE(qanat_send_block(q, connection, block.memory) == OK && qanat_send_block(q, connection, block.memory) == OK);
    SURE(qanat_release(q, block.memory) == OK);
    SURE(qanat_send_block(q, connection, block.memory) == QANAT_STATUS_STALE);
    int64_t room;
    qanat_status known = qanat_send_room(q, connection, &room);
    SURE(known == (qanat_has(q, QANAT_CAPABILITY_TELLS_SEND_ROOM) == OK ? OK : QANAT_STATUS_UNSUPPORTED));
    next_of(QANAT_EVENT_ACKED);
    next_of(QANAT_EVENT_PEER_CLOSED);
    SURE(qanat_close(q, connection) == OK);
    event = next_of(QANAT_EVENT_CLOSED);
    SURE(event.object == connection && event.status == QANAT_CLOSE_REASON_FINISHED);
    SURE(released == 3);
    SURE(qanat_close(q, connection) == QANAT_STATUS_STALE && qanat_abort(q, connection) == QANAT_STATUS_STALE);
    SURE(qanat_refuse(q, connection) == QANAT_STATUS_STALE && qanat_shutdown(q, connection) == QANAT_STATUS_STALE);
    pthread_join(thread, NULL);
    SURE(qanat_close_listener(q, listener) == OK && qanat_close_listener(q, listener) == QANAT_STATUS_STALE);
}

static void *listens(void *listener) {
    int made = accept(*(int *)listener, NULL, NULL);
    SURE(made >= 0);
    char heard[6] = "";
    hear(made, heard, 5);
    SURE(strcmp(heard, "hello") == 0);
    say_all(made, "well met");
    SURE(read(made, heard, 1) == 0);
    close(made);
    return NULL;
}

static void a_client(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = kernel_address(peer, 7200);
    int on = 1;
    SURE(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    SURE(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
    pthread_t thread;
    SURE(pthread_create(&thread, NULL, listens, &listener) == 0);
    qanat_address to = at(peer, 7200);
    uint64_t connection;
    SURE(qanat_connect(q, &to, NULL, 9, &connection) == QANAT_STATUS_INVALID);
    if (qanat_has(q, QANAT_CAPABILITY_FAST_OPEN) != OK)
        SURE(qanat_connect(q, &to, NULL, QANAT_FAST_OPEN_WITH_COOKIE, &connection) == QANAT_STATUS_UNSUPPORTED);
    SURE(qanat_connect(q, &to, NULL, QANAT_FAST_OPEN_NO, NULL) == QANAT_STATUS_INVALID);
    SURE(qanat_connect(q, &to, NULL, QANAT_FAST_OPEN_NO, &connection) == OK);
    /* It leaves when the connection is established. */
    SURE(qanat_send(q, connection, (const uint8_t *)"hel", 3) == OK);
    SURE(next_of(QANAT_EVENT_CONNECTED).object == connection);
    SURE(qanat_send(q, connection, (const uint8_t *)"lo", 2) == OK);
    qanat_event event = next_of(QANAT_EVENT_DATA);
    SURE(event.length == 8 && memcmp(event.data, "well met", 8) == 0);
    SURE(qanat_release(q, event.memory) == OK);
    SURE(qanat_shutdown(q, connection) == OK);
    SURE(qanat_send(q, connection, (const uint8_t *)"late", 4) == QANAT_STATUS_NOT_SENDING);
    next_of(QANAT_EVENT_PEER_CLOSED);
    SURE(qanat_close(q, connection) == OK || 1);
    SURE(next_of(QANAT_EVENT_CLOSED).object == connection);
    pthread_join(thread, NULL);
    close(listener);
    /* Where nobody listens. */
    SURE(qanat_connect(q, &to, NULL, QANAT_FAST_OPEN_NO, &connection) == OK);
    event = next_of(QANAT_EVENT_CLOSED);
    SURE(event.object == connection && event.status == QANAT_CLOSE_REASON_REFUSED);
}

static void datagrams(void) {
    qanat_address local = at("0.0.0.0", 7300);
    uint64_t bound;
    SURE(qanat_bind_udp(q, &local, &bound) == OK);
    int made = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = kernel_address(own, 7300);
    struct timeval patience = {.tv_sec = 20};
    SURE(setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    SURE(connect(made, (struct sockaddr *)&address, sizeof address) == 0);
    say_all(made, "what?");
    qanat_event event = next_of(QANAT_EVENT_DATAGRAM);
    SURE(event.object == bound && event.length == 5 && memcmp(event.data, "what?", 5) == 0);
    /* An answer in the question's memory, longer than it. */
    uint8_t *answer;
    SURE(qanat_writable(q, event.memory, 1 << 20, &answer) == QANAT_STATUS_TOO_LONG);
    SURE(qanat_writable(q, event.memory, 7, &answer) == OK);
    memcpy(answer + 4, "!!!", 3);
    qanat_address nowhere = {0};
    SURE(qanat_send_memory_to(q, bound, &nowhere, event.memory) == QANAT_STATUS_INVALID);
    SURE(qanat_send_memory_to(q, bound, &event.address, event.memory) == OK);
    SURE(qanat_send_memory_to(q, bound, &event.address, event.memory) == QANAT_STATUS_STALE);
    SURE(qanat_send_to(q, bound, &event.address, (const uint8_t *)"more", 4) == OK);
    const qanat_event *events;
    size_t count;
    SURE(qanat_next(q, 0, &events, &count) == OK);
    char heard[16] = "";
    SURE(read(made, heard, sizeof heard) == 7 && memcmp(heard, "what!!!", 7) == 0);
    SURE(read(made, heard, sizeof heard) == 4 && memcmp(heard, "more", 4) == 0);
    close(made);
    SURE(qanat_close_udp(q, bound) == OK && qanat_close_udp(q, bound) == QANAT_STATUS_STALE);
}

static void an_area(void) {
    qanat_geometry geometry;
    SURE(qanat_area_geometry(q, 1, &geometry) == QANAT_STATUS_STALE);
    SURE(qanat_area_geometry(q, 0, &geometry) == OK);
    SURE(geometry.block_bytes >= 512 && geometry.blocks * geometry.block_bytes == 1 << 20 && geometry.depth == 4);
    qanat_block blocks[5];
    for (int i = 0; i < 4; i++)
        SURE(qanat_area_block(q, 0, &blocks[i]) == OK && blocks[i].length == 4096);
    SURE(qanat_area_block(q, 0, &blocks[4]) == QANAT_STATUS_FULL);
    for (int i = 1; i < 4; i++)
        SURE(qanat_release(q, blocks[i].memory) == OK);
    memset(blocks[0].data, 'a', 4096);
    SURE(qanat_write(q, 0, 4096, blocks[0].memory, 8192, 1, 5) == QANAT_STATUS_TOO_LONG);
    SURE(qanat_write(q, 7, 4096, blocks[0].memory, 4096, 1, 5) == QANAT_STATUS_STALE);
    qanat_block longer;
    SURE(qanat_block_new(q, 16384, &longer) == OK && longer.length >= 16384);
    SURE(qanat_write(q, 0, 0, longer.memory, 16384, 1, 5) == QANAT_STATUS_TOO_LONG);
    SURE(qanat_release(q, longer.memory) == OK);
    SURE(qanat_write(q, 0, 4096, blocks[0].memory, 4096, 1, 5) == OK);
    SURE(qanat_release(q, blocks[0].memory) == QANAT_STATUS_STALE);
    qanat_event event = next_of(QANAT_EVENT_WRITTEN);
    SURE(event.object == 0 && event.token == 5 && event.status == 0 && event.length == 4096 && event.memory);
    SURE(qanat_release(q, event.memory) == OK);
    SURE(qanat_flush(q, 0, 6) == OK);
    event = next_of(QANAT_EVENT_FLUSHED);
    SURE(event.token == 6 && event.status == 0);
    SURE(qanat_read(q, 0, 4096, 4096, 7) == OK);
    event = next_of(QANAT_EVENT_READ);
    SURE(event.token == 7 && event.status == 0 && event.length == 4096 && event.data[0] == 'a' && event.data[4095] == 'a');
    /* What was read is sealed, and could be sent. */
    SURE(qanat_block_seal(q, event.memory, 512) == OK && qanat_release(q, event.memory) == OK);
    SURE(qanat_write_zeroes(q, 0, 4096, 4096, 8) == OK);
    event = next_of(QANAT_EVENT_ZEROED);
    SURE(event.token == 8 && event.status == 0);
    SURE(qanat_read(q, 0, 4096, 4096, 9) == OK);
    event = next_of(QANAT_EVENT_READ);
    SURE(event.status == 0 && event.data[0] == 0);
    SURE(qanat_release(q, event.memory) == OK);
    SURE(qanat_read(q, 0, 1 << 20, 4096, 10) == OK);
    event = next_of(QANAT_EVENT_READ);
    SURE(event.status == EINVAL && !event.memory && !event.data);
    SURE(qanat_read(q, 0, 0, 1 << 20, 11) == QANAT_STATUS_TOO_LONG);
}

static int ended;

static void at_the_end(void *state) {
    (void)state;
    SURE(qanat_set_timer(q, 1, 1, NULL) == QANAT_STATUS_BUSY && qanat_end(q) == QANAT_STATUS_BUSY);
    ended++;
}

static void *listens_to_the_end(void *dialled) {
    char heard[4096];
    ssize_t some;
    while ((some = read(*(int *)dialled, heard, sizeof heard)) > 0)
        continue;
    /* It was not closed in order, and the peer is told so. */
    SURE(some < 0 && errno == ECONNRESET);
    return NULL;
}

/* With a connection that is open, and bytes that nobody has acknowledged. */
static void an_end(void) {
    qanat_address local = at("0.0.0.0", 7100);
    SURE(qanat_listen(q, &local, 0, NULL) == OK);
    static int dialled;
    pthread_t dials_up, thread;
    SURE(pthread_create(&dials_up, NULL, dials, &dialled) == 0);
    uint64_t connection = next_of(QANAT_EVENT_ACCEPTED).object;
    pthread_join(dials_up, NULL);
    static uint8_t much[1 << 20];
    for (int i = 0; i < 16; i++)
        SURE(qanat_lend(q, connection, much, sizeof much, at_the_end, NULL) == OK);
    const qanat_event *events;
    size_t count;
    SURE(qanat_next(q, 0, &events, &count) == OK);
    SURE(qanat_end(q) == OK);
    SURE(ended == 16);
    SURE(pthread_create(&thread, NULL, listens_to_the_end, &dialled) == 0);
    pthread_join(thread, NULL);
    close(dialled);
}

int main(int count, char **arguments) {
    SURE(count >= 4);
    signal(SIGPIPE, SIG_IGN);
    own = arguments[1];
    peer = arguments[2];
    refusals();
    qanat_options *options = qanat_options_new();
    SURE(qanat_options_set(options, "area-buffers", "4x4096") == OK);
    SURE(qanat_options_set(options, "port", "tcp/7100") == OK && qanat_options_set(options, "port", "udp/7300") == OK);
    for (int i = 3; i < count; i++) {
        char *equals = strchr(arguments[i], '=');
        SURE(equals);
        *equals = 0;
        SURE(qanat_options_set(options, arguments[i], equals + 1) == OK);
    }
    SURE(qanat_start(options, &q) == OK);
    qanat_options_free(options);
    timers_bells_and_threads();
    a_server();
    a_client();
    datagrams();
    an_area();
    an_end();
    puts("all calls did what the header says");
    return 0;
}
