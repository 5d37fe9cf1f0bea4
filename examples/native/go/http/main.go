// An HTTP server without files: it answers every request with the same page, at port 8080.
//
//	go build ./http && sudo ./http/http
//	curl http://10.77.0.2:8080/
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"

	"example.org/qanat/qanat"
)

const body = "It flows.\n"
const headMax = 16384

var page = []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
var endOfHead = []byte("\r\n\r\n")

func serve() error {
	q, err := qanat.New(append([]string{"port=tcp/8080"}, os.Args[1:]...)...)
	if err != nil {
		return err
	}
	if err := q.Listen("0.0.0.0:8080"); err != nil {
		return err
	}
	heads := map[uint64][]byte{}
	return q.Serve(func(event *qanat.Event) {
		connection := event.Object()
		switch event.Kind() {
		case qanat.Accepted:
			q.Set(connection, qanat.NoDelay, 1)
		case qanat.Data:
			// Events lend their bytes: what is kept is a copy.
			parts := bytes.Split(append(heads[connection], event.Bytes()...), endOfHead)
			q.Release(event.Memory())
			heads[connection] = parts[len(parts)-1]
			answers := bytes.Repeat(page, len(parts)-1)
			if len(heads[connection]) > headMax || q.Send(connection, answers) != nil {
				q.Abort(connection)
			}
		case qanat.PeerClosed:
			q.Close(connection)
		case qanat.Closed:
			delete(heads, connection)
		}
	})
}

func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}
