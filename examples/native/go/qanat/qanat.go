// Package qanat is libqanat-native for Go: the events and commands of its header.
//
// A Qanat is used by one thread: New has its goroutine locked to one (runtime.LockOSThread), and every call but Wake is made by that goroutine.
package qanat

/*
#cgo LDFLAGS: -lqanat-native
#include <qanat-native.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// Event is qanat_event. It is good until Next is called again.
type Event C.qanat_event

// What happened: qanat_event_kind of the header, which says what each has.
const (
	Accepted        = C.QANAT_EVENT_ACCEPTED
	Connected       = C.QANAT_EVENT_CONNECTED
	Data            = C.QANAT_EVENT_DATA
	Acked           = C.QANAT_EVENT_ACKED
	Urgent          = C.QANAT_EVENT_URGENT
	PeerClosed      = C.QANAT_EVENT_PEER_CLOSED
	Closed          = C.QANAT_EVENT_CLOSED
	Datagram        = C.QANAT_EVENT_DATAGRAM
	Timer           = C.QANAT_EVENT_TIMER
	AddressConflict = C.QANAT_EVENT_ADDRESS_CONFLICT
	Readable        = C.QANAT_EVENT_READABLE
	Woken           = C.QANAT_EVENT_WOKEN
	Read            = C.QANAT_EVENT_READ
	Written         = C.QANAT_EVENT_WRITTEN
	Flushed         = C.QANAT_EVENT_FLUSHED
	Zeroed          = C.QANAT_EVENT_ZEROED
)

// NoDelay is a setting: small segments leave at once.
const NoDelay = C.QANAT_SETTING_NO_DELAY

// Kind is what happened.
func (event *Event) Kind() int { return int(event.kind) }

// Object is whom it is about: a connection, a socket, a timer, an area.
func (event *Event) Object() uint64 { return uint64(event.object) }

// Token is what each kind has there.
func (event *Event) Token() uint64 { return uint64(event.token) }

// Memory is what lends the bytes.
func (event *Event) Memory() uint64 { return uint64(event.memory) }

// Bytes are those that are lent, until their memory is released.
func (event *Event) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(event.data)), int(event.length))
}

// Qanat is a stack.
type Qanat struct{ handle *C.qanat }

func failure(status C.qanat_status) error {
	switch status {
	case C.QANAT_STATUS_OK:
		return nil
	case C.QANAT_STATUS_INVALID, C.QANAT_STATUS_FAILED:
		return errors.New(C.GoString(C.qanat_last_error()))
	}
	return errors.New(C.GoString(C.qanat_status_text(status)))
}

// New starts a stack. Each option is NAME=VALUE, as in "address=10.77.0.2/24".
func New(options ...string) (qanat *Qanat, err error) {
	runtime.LockOSThread()
	defer func() {
		if err != nil {
			runtime.UnlockOSThread()
		}
	}()
	asked := C.qanat_options_new()
	defer C.qanat_options_free(asked)
	for _, option := range options {
		name, value, isPair := strings.Cut(option, "=")
		if !isPair {
			return nil, errors.New(option + ": write NAME=VALUE")
		}
		written, meant := C.CString(name), C.CString(value)
		err := failure(C.qanat_options_set(asked, written, meant))
		C.free(unsafe.Pointer(written))
		C.free(unsafe.Pointer(meant))
		if err != nil {
			return nil, err
		}
	}
	var handle *C.qanat
	if err := failure(C.qanat_start(asked, &handle)); err != nil {
		return nil, err
	}
	return &Qanat{handle}, nil
}

// End frees everything, and lets the goroutine's thread go.
func (qanat *Qanat) End() error {
	err := failure(C.qanat_end(qanat.handle))
	if err == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// Wake has Next return. Any goroutine may call it.
func (qanat *Qanat) Wake() { C.qanat_wake(qanat.handle) }

// Next is the next events. They are waited for so long at most; less than 0: without end.
func (qanat *Qanat) Next(patience time.Duration) ([]Event, error) {
	var events *C.qanat_event
	var count C.size_t
	err := failure(C.qanat_next(qanat.handle, C.int64_t(patience), &events, &count))
	return unsafe.Slice((*Event)(unsafe.Pointer(events)), int(count)), err
}

func address(text string) (C.qanat_address, error) {
	var address C.qanat_address
	written := C.CString(text)
	defer C.free(unsafe.Pointer(written))
	return address, failure(C.qanat_address_parse(written, &address))
}

// Listen accepts connections at an own address and port, as in "0.0.0.0:80".
func (qanat *Qanat) Listen(local string) error {
	at, err := address(local)
	if err != nil {
		return err
	}
	return failure(C.qanat_listen(qanat.handle, &at, 0, nil))
}

// BindUDP opens a UDP socket.
func (qanat *Qanat) BindUDP(local string) error {
	at, err := address(local)
	if err != nil {
		return err
	}
	return failure(C.qanat_bind_udp(qanat.handle, &at, nil))
}

// Send sends a copy of bytes.
func (qanat *Qanat) Send(connection uint64, bytes []byte) error {
	var data *C.uint8_t
	if len(bytes) > 0 {
		data = (*C.uint8_t)(unsafe.Pointer(&bytes[0]))
	}
	return failure(C.qanat_send(qanat.handle, C.uint64_t(connection), data, C.size_t(len(bytes))))
}

// SendBack sends a datagram back to its sender, in its own memory.
func (qanat *Qanat) SendBack(event *Event) error {
	return failure(C.qanat_send_memory_to(qanat.handle, event.object, &event.address, event.memory))
}

// Release gives memory back.
func (qanat *Qanat) Release(memory uint64) error {
	return failure(C.qanat_release(qanat.handle, C.uint64_t(memory)))
}

// Set changes how a connection behaves.
func (qanat *Qanat) Set(connection uint64, setting uint32, value uint64) error {
	return failure(C.qanat_set(qanat.handle, C.uint64_t(connection), C.uint32_t(setting), C.uint64_t(value)))
}

// Close sends what was given, then FIN.
func (qanat *Qanat) Close(connection uint64) error {
	return failure(C.qanat_close(qanat.handle, C.uint64_t(connection)))
}

// Abort resets a connection.
func (qanat *Qanat) Abort(connection uint64) error {
	return failure(C.qanat_abort(qanat.handle, C.uint64_t(connection)))
}
