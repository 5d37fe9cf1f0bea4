/* Sends back what comes, over TCP and UDP, at port 7 (RFC 862).
 *
 *  cc -o echo echo.c -lqanat-native
 *  sudo ./echo                                  # or with a daemon, without root
 *  ./echo placement=kernel                      # over the kernel's TCP/IP
 */
#include "serve.h"

static void handle(qanat *q, const qanat_event *event) {
    switch (event->kind) {
    case QANAT_EVENT_DATAGRAM:
        /* The datagram goes back in the frame it came in. */
        qanat_send_memory_to(q, event->object, &event->address, event->memory);
        break;
    case QANAT_EVENT_DATA:
        /* A peer that never reads its echo fills our side of the connection. Then the call is refused. */
        if (qanat_send(q, event->object, event->data, event->length) != QANAT_STATUS_OK)
            qanat_abort(q, event->object);
        /* The bytes are given back, so the peer may send more. */
        qanat_release(q, event->memory);
        break;
    case QANAT_EVENT_PEER_CLOSED:
        qanat_close(q, event->object);
        break;
    default:
        break;
    }
}

int main(int count, char **arguments) {
    static const char *const ports[] = {"tcp/7", "udp/7", NULL};
    qanat *q = start(count, arguments, ports);
    qanat_address local;
    check("address", qanat_address_parse("0.0.0.0:7", &local));
    check("listen", qanat_listen(q, &local, 0, NULL));
    check("bind", qanat_bind_udp(q, &local, NULL));
    serve(q, handle);
    return 0;
}
