/* What the examples in C share: options from the command line, and a loop until Ctrl-C. */
#ifndef SERVE_H
#define SERVE_H

#include <qanat-native.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qanat *the_qanat;
static volatile sig_atomic_t is_stopped;

static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
    /* This is one of the few calls that a signal handler may make. */
    qanat_wake(the_qanat);
}

/* Ends the program if a call failed. */
static void check(const char *what, qanat_status status) {
    if (status == QANAT_STATUS_OK)
        return;
    int has_text = status == QANAT_STATUS_INVALID || status == QANAT_STATUS_FAILED;
    fprintf(stderr, "%s: %s\n", what, has_text ? qanat_last_error() : qanat_status_text(status));
    exit(1);
}

/* Starts a stack. Each argument is an option, NAME=VALUE; `ports` are what is served, up to a null pointer. */
static qanat *start(int count, char **arguments, const char *const *ports) {
    qanat_options *options = qanat_options_new();
    for (; *ports; ports++)
        check("port", qanat_options_set(options, "port", *ports));
    for (int i = 1; i < count; i++) {
        char *equals = strchr(arguments[i], '=');
        if (!equals) {
            fprintf(stderr, "%s: write NAME=VALUE, as in address=10.77.0.2/24\n", arguments[i]);
            exit(2);
        }
        *equals = 0;
        check(arguments[i], qanat_options_set(options, arguments[i], equals + 1));
    }
    check(arguments[0], qanat_start(options, &the_qanat));
    qanat_options_free(options);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    return the_qanat;
}

/* Handles events until Ctrl-C. */
static void serve(qanat *q, void (*handle)(qanat *q, const qanat_event *event)) {
    qanat_address address;
    char text[64] = "the machine's addresses";
    if (qanat_address_at(q, 0, &address) == QANAT_STATUS_OK)
        qanat_address_text(&address, text, sizeof text);
    printf("serves at %s\n", text);
    fflush(stdout);
    while (!is_stopped) {
        const qanat_event *events;
        size_t count;
        check("next", qanat_next(q, -1, &events, &count));
        for (size_t i = 0; i < count; i++)
            handle(q, &events[i]);
    }
    /* From here on there is nothing to wake. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    the_qanat = NULL;
    check("end", qanat_end(q));
}

#endif
