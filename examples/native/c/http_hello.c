/* An HTTP server without files: it answers every request with the same page, at port 8080.
 *
 *  cc -o http_hello http_hello.c -lqanat-native
 *  sudo ./http_hello
 *  curl http://10.77.0.2:8080/
 *
 * The page is lent to the stack, which does not copy it if it is in this process. A request may come in any number of pieces, or several in one: all
 * that this server looks for is the empty line that ends a head.
 */
#include "serve.h"

static const char page[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nIt flows.\n";
static const char end_of_head[] = "\r\n\r\n";

/* For each connection, by its slot: how many bytes of the end of a head have come in a row. */
static unsigned char *matched;
static size_t slots;

static unsigned char *state(uint64_t connection) {
    size_t slot = (uint32_t)connection;
    if (slot >= slots) {
        size_t more = slot * 2 + 64;
        matched = realloc(matched, more);
        if (!matched)
            abort();
        memset(matched + slots, 0, more - slots);
        slots = more;
    }
    return &matched[slot];
}

static void handle(qanat *q, const qanat_event *event) {
    switch (event->kind) {
    case QANAT_EVENT_ACCEPTED:
        *state(event->object) = 0;
        /* An answer is short. Without this it might wait for more to fill a segment. */
        qanat_set(q, event->object, QANAT_SETTING_NO_DELAY, 1);
        break;
    case QANAT_EVENT_DATA: {
        unsigned char *at = state(event->object);
        qanat_status sent = QANAT_STATUS_OK;
        for (size_t i = 0; i < event->length && sent == QANAT_STATUS_OK; i++) {
            char byte = (char)event->data[i];
            *at = byte == end_of_head[*at] ? *at + 1 : byte == '\r';
            if (*at == 4) {
                *at = 0;
                /* It never changes, so nobody needs to know when it is free. */
                sent = qanat_lend(q, event->object, (const uint8_t *)page, sizeof page - 1, NULL, NULL);
            }
        }
        if (sent != QANAT_STATUS_OK)
            qanat_abort(q, event->object);
        qanat_release(q, event->memory);
        break;
    }
    case QANAT_EVENT_PEER_CLOSED:
        qanat_close(q, event->object);
        break;
    default:
        break;
    }
}

int main(int count, char **arguments) {
    static const char *const ports[] = {"tcp/8080", NULL};
    qanat *q = start(count, arguments, ports);
    qanat_address local;
    check("address", qanat_address_parse("0.0.0.0:8080", &local));
    check("listen", qanat_listen(q, &local, 0, NULL));
    serve(q, handle);
    return 0;
}
