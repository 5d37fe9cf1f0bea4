// Sends back what comes, over TCP and UDP, at port 7 (RFC 862).
//
//	go build ./echo && sudo ./echo/echo address=10.77.0.2/24
package main

import (
	"log"
	"os"

	"example.org/qanat/qanat"
)

func serve() error {
	q, err := qanat.New(append([]string{"port=tcp/7", "port=udp/7"}, os.Args[1:]...)...)
	if err != nil {
		return err
	}
	if err := q.Listen("0.0.0.0:7"); err != nil {
		return err
	}
	if err := q.BindUDP("0.0.0.0:7"); err != nil {
		return err
	}
	return q.Serve(func(event *qanat.Event) {
		switch event.Kind() {
		case qanat.Datagram:
			q.SendBack(event)
		case qanat.Data:
			// A peer that never reads its echo fills our side of the connection.
			if q.Send(event.Object(), event.Bytes()) != nil {
				q.Abort(event.Object())
			}
			q.Release(event.Memory())
		case qanat.PeerClosed:
			q.Close(event.Object())
		}
	})
}

func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}
