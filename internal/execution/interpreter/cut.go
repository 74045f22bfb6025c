package interpreter

import (
	"crypto/rand"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/command"
	"reprise/internal/wire"
)

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

// begin makes code the current run. The caller holds mu.
func (d *driver) begin(code *execution.Run, req *execution.Request) {
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
}

// Take cuts the runs out of events of the interpreter.
func (d *driver) Take(events []reprise.Event, last uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last <= d.state.Seq {
		return nil
	}
	var batch []reprise.Event
	for i := range events {
		e := &events[i]
		if e.Type != execution.Stdout && e.Type != execution.Stderr {
			continue
		}
		for _, p := range d.state.Slice.Feed(e.Type == execution.Stderr, e.Data) {
			piece := reprise.Event{Time: e.Time, Type: e.Type, Format: reprise.FormatBytes, Data: p.Data}
			if p.Type != "" {
				piece.Type, piece.Format = p.Type, reprise.FormatJSON
			}
			batch = append(batch, piece)
		}
		if d.state.Slice.Over() {
			if err := d.deliver(batch); err != nil {
				return err
			}
			batch = nil
			exit := d.state.Slice.Code
			if err := d.conclude(command.Ending{Outcome: command.Exited, ExitCode: &exit}, e.Time); err != nil {
				return err
			}
		}
	}
	if err := d.deliver(batch); err != nil {
		return err
	}
	d.state.Seq = last
	d.save()
	return nil
}

// End ends the run of the code as its interpreter has ended.
func (d *driver) End(e command.Ending) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.timer != nil {
		d.timer.Stop()
	}
	var rest []reprise.Event
	for _, channel := range []string{execution.Stdout, execution.Stderr} {
		if held := d.state.Slice.Flush(channel == execution.Stderr); len(held) > 0 {
			rest = append(rest, reprise.Event{Type: channel, Format: reprise.FormatBytes, Data: held})
		}
	}
	if err := d.deliver(rest); err != nil {
		return err
	}
	why := "the interpreter ended"
	if e.Error != "" {
		why += ": " + e.Error
	}
	return d.conclude(command.Ending{
		Outcome: e.Outcome, ExitCode: e.ExitCode, Signal: e.Signal, Error: why, Limit: e.Limit,
		OutputTruncated: e.OutputTruncated, ProcessesLeft: e.ProcessesLeft, Isolation: e.Isolation,
	}, time.Now())
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
