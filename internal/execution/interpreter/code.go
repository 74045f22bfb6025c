package interpreter

import (
	"context"
	"fmt"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/command"
)

// Accept lets code run if no other code does.
func (d *driver) Accept(req *execution.Request, create func() *execution.Run) error {
	if running := d.Progress().Running; running != "" { // mu may be held for long
		return &execution.BusyError{Running: running}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over:
		return fmt.Errorf("%w: interpreter %s", reprise.ErrEnded, req.Interpreter)
	case d.state.Current != nil:
		_, running, _ := strings.Cut(d.state.Current.Name, ":")
		return &execution.BusyError{Running: running}
	}
	code := create()
	if code == nil {
		return nil
	}
	d.begin(code, req)
	d.enter()
	return nil
}

// Resume takes up an interpreter of an earlier server, and the code that it runs.
func (d *driver) Resume(ctx context.Context, r *execution.Run, created time.Time) error {
	d.load(r, created)
	if d.state.Current != nil {
		if err := d.resumeCode(ctx); err != nil {
			return err
		}
	}
	lost := func() {
		if d.current != nil {
			d.current.Cut()
		}
	}
	if err := r.Replay(ctx, d.state.Seq, lost, d.Take); err != nil {
		if code := d.current; code != nil { // recover gives it its end
			code.SetOver()
			<-code.Done()
		}
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state.Current == nil {
		d.rest()
	}
	return nil
}

// resumeCode takes up the run of code of an earlier server.
func (d *driver) resumeCode(ctx context.Context) error {
	at := d.state.Current
	code, err := d.run.ResumeInside(ctx, at.Name, at.Epoch, at.Grace)
	if err != nil || code == nil { // without an error, it was removed: no client reads the rest
		return err
	}
	d.current = code
	d.enter()
	return nil
}

// enter lets the current code live.
func (d *driver) enter() {
	code, at := d.current, *d.state.Current
	code.Enter(at.Started, func(ctx context.Context) { d.attend(ctx, code, &at) })
}

// interruptPause is the time that code has to end after one signal, before the next signal of its language is sent.
const interruptPause = 100 * time.Millisecond

// attend sends the code, and ends it when that is decided: by the signals of its language, and after the time of grace
// with its interpreter.
func (d *driver) attend(ctx context.Context, code *execution.Run, at *codeState) {
	inside, leave := context.WithCancel(ctx)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		code.Send(inside, at.Input)
	}()
	defer func() {
		leave()
		<-sent
	}()
	var timeout, patience, again <-chan time.Time
	interrupts := d.program.interrupts
	interrupt := func() (again <-chan time.Time) {
		_ = code.Signal(inside, interrupts[0])
		if interrupts = interrupts[1:]; len(interrupts) == 0 {
			return nil
		}
		return time.After(interruptPause)
	}
	if at.Timeout > 0 {
		timer := time.NewTimer(time.Until(at.Started.Add(at.Timeout)))
		defer timer.Stop()
		timeout = timer.C
	}
	stopping := code.Stopping()
	for {
		select {
		case <-code.Over():
			return
		case <-code.Outer().Done():
			return
		case <-ctx.Done():
			return
		case <-timeout:
			code.Stop(command.Verdict{Outcome: command.TimedOut})
		case <-stopping:
			stopping = nil
			grace := at.Grace
			if code.IsNow() {
				grace = 0
			}
			timer := time.NewTimer(grace)
			defer timer.Stop()
			patience, again = timer.C, interrupt()
		case <-again:
			again = interrupt()
		case <-patience:
			patience = nil
			code.Outer().Stop(command.Verdict{
				Outcome: command.Cancelled, Reason: "its code did not end when it was interrupted", Now: true,
			})
		}
	}
}
