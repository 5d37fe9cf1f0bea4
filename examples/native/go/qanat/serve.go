package qanat

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Serve handles events until Ctrl-C or SIGTERM, then ends the stack. It ends it after a failure, too.
func (qanat *Qanat) Serve(handle func(event *Event)) error {
	signals, heard := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	isStopped := int32(0)
	go func() {
		defer close(heard)
		if _, isSignal := <-signals; isSignal {
			atomic.StoreInt32(&isStopped, 1)
			qanat.Wake()
		}
	}()
	fmt.Println("serves")
	var err error
	for err == nil && atomic.LoadInt32(&isStopped) == 0 {
		var events []Event
		events, err = qanat.Next(-1)
		for place := range events {
			handle(&events[place])
		}
	}
	// Nobody wakes it from here on.
	signal.Stop(signals)
	close(signals)
	<-heard
	if ended := qanat.End(); err == nil {
		err = ended
	}
	return err
}
