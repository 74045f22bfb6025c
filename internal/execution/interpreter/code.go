package interpreter

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/command"
	"reprise/internal/wire"
)

// codeState is the part of the run of code that a later server needs.
type codeState struct {
	Name  string        `json:"name"` // of its stream
	Epoch reprise.Epoch `json:"epoch"`
	// Tail is the tail of its stream when state.Seq was taken.
	Tail uint64 `json:"tail"`
	// Input is the request that is sent to the driver.
	Input   []byte        `json:"input"`
	Started time.Time     `json:"started"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Grace   time.Duration `json:"grace"`
}

// request returns the request for code to the driver, and the marks by which a Slicer finds the run. The code must not
// contain NUL.
func request(number int, r *execution.Request) ([]byte, Marks) {
	m := Marks{Frame: rand.Text(), End: rand.Text()}
	what := "run"
	if r.Clear {
		what = "clear"
	}
	return fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s\x00%s\n", what, number, m.Frame, r.Code, m.End), m
}

// errBusy is why code is refused.
var errBusy = fmt.Errorf("%w: the interpreter runs other code: wait for its end, or interrupt it", reprise.ErrConflict)

// Accept lets code run if no other code does.
func (d *driver) Accept(req *execution.Request, create func() *execution.Run) error {
	if d.Progress().Running != "" { // mu may be held for long
		return errBusy
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.over:
		return fmt.Errorf("%w: interpreter %s", reprise.ErrEnded, req.Interpreter)
	case d.state.Current != nil:
		return errBusy
	}
	code := create()
	if code == nil {
		return nil
	}
	d.state.Runs++
	input, marks := request(d.state.Runs, req)
	d.state.Slice.Begin(marks)
	d.state.Current = &codeState{
		Name: code.Name(), Epoch: code.Epoch(), Input: input, Started: time.Now(),
		Timeout: code.Timeout(), Grace: code.Grace(), Tail: 1,
	}
	d.current = code
	d.report()
	d.save()
	d.enter()
	return nil
}

// resumeCode takes up the run of code of an earlier server.
func (d *driver) resumeCode(ctx context.Context) error {
	at := d.state.Current
	code, err := d.run.ResumeInside(ctx, at.Name, at.Epoch, at.Grace)
	if err != nil || code == nil { // without an error, it was removed: nobody reads the rest
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

// deliver appends the events that belong to the run of the code, except those that an earlier server has appended. The
// caller holds mu.
func (d *driver) deliver(batch []reprise.Event) error {
	code, at := d.current, d.state.Current
	if at == nil {
		return nil
	}
	before := at.Tail
	at.Tail += uint64(len(batch))
	if code == nil {
		return nil
	}
	over, err := code.Deliver(batch, before)
	if over {
		d.current = nil
		code.SetOver()
	}
	return err
}

// conclude gives the run of the code its end. The caller holds mu.
func (d *driver) conclude(e command.Ending, at time.Time) error {
	code, was := d.current, d.state.Current
	if was == nil {
		return nil
	}
	e.Started = wire.At(was.Started)
	e.DurationMS = max(0, at.Sub(was.Started).Milliseconds())
	// A client that sees the end may look at the interpreter, and give it the next code, which then waits for mu.
	d.state.Used = at
	d.shown.Store(&execution.Driven{Runs: d.state.Runs, Used: at, Idle: d.state.Idle})
	if code != nil {
		if err := code.Conclude(e); err != nil {
			return err
		}
	}
	d.current, d.state.Current = nil, nil
	d.state.Slice.Marks = Marks{}
	d.rest()
	return nil
}
