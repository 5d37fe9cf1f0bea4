package qanat

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Serve handles events until Ctrl-C or SIGTERM, then ends the stack.
func (qanat *Qanat) Serve(handle func(event *Event)) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		// Nothing ends the stack before this was heard.
		<-signals
		qanat.Wake()
	}()
	fmt.Println("serves")
	for isStopped := false; !isStopped; {
		events, err := qanat.Next(-1)
		if err != nil {
			return err
		}
		for place := range events {
			if events[place].Kind() == Woken {
				isStopped = true
			}
			handle(&events[place])
		}
	}
	signal.Stop(signals)
	return qanat.End()
}
