package qanat

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Serve handles events until Ctrl-C or SIGTERM, then ends the stack.
func (qanat *Qanat) Serve(handle func(event *Event)) error {
	var isStopped int32
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		atomic.StoreInt32(&isStopped, 1)
		qanat.Wake()
	}()
	fmt.Println("serves")
	for atomic.LoadInt32(&isStopped) == 0 {
		events, err := qanat.Next(-1)
		if err != nil {
			return err
		}
		for place := range events {
			handle(&events[place])
		}
	}
	return qanat.End()
}
