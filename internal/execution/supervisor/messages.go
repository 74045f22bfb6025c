package supervisor

import (
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/execution/command"
	"reprise/internal/problem"
)

// The messages between a server and a supervisor over its socket. Members may be added; a supervisor answers an unknown
// operation with an error.

// Order is a message of a server to a supervisor that it has started itself, over the supervisor's stdin. It starts a
// command, or is about a command that an earlier such order has started. Both sides are the same program.
type Order struct {
	Dir string `json:"dir,omitempty"`
	// Spare is where the supervisor keeps a directory between two runs. An order without a Plan and a Call asks it to
	// make one.
	Spare          string        `json:"spare,omitempty"`
	Secret         string        `json:"secret,omitempty"`
	SpoolBytes     int64         `json:"spool_bytes,omitempty"`
	DisableCgroups bool          `json:"disable_cgroups,omitempty"`
	Plan           *command.Plan `json:"plan,omitempty"`
	// Attempt must equal the attempt of the brief in Dir.
	Attempt string `json:"attempt,omitempty"`
	// Call is callAck or callForget, as over the socket, in an order without a Plan.
	Call *call `json:"call,omitempty"`
	// Run is the name of the directory of the run that the Call is about: it may come when the supervisor has the next
	// one. Without it, the Call is about the run that the supervisor has.
	Run string `json:"run,omitempty"`
}

// taken is the answer: first that the supervisor has the directory and listens, or why not; then news, as after
// callFollow; and when the run is over and forgotten, that the supervisor is free for another one.
type taken struct {
	Error string `json:"error,omitempty"`
	News  *News  `json:"news,omitempty"`
	Idle  bool   `json:"idle,omitempty"`
	// Spare: the supervisor has a directory for the next run, as Order.Spare says.
	Spare bool `json:"spare,omitempty"`
	// Spent: the run is over and forgotten, and the supervisor takes no other.
	Spent bool `json:"spent,omitempty"`
}

// call is a request of a server over the socket: a Control, or one of the operations below.
type call struct {
	command.Control
	// Ack is the last frame that is kept elsewhere.
	Ack uint64 `json:"ack,omitempty"`
}

const (
	// callFollow is answered with news, again and again; callAck and callForget may follow on the same connection.
	callFollow command.Op = "follow"
	callAck    command.Op = "ack"
	// callForget reports that the end is kept elsewhere: the supervisor removes the directory.
	callForget command.Op = "forget"
	// callStatus is answered with news once.
	callStatus command.Op = "status"
)

func callOf(op command.Op) call { return call{Control: command.Control{Op: op}} }

// News is the progress of a supervisor.
type News struct {
	Progress
	command.State
	Ended *command.Ending `json:"ended,omitempty"`
}

// replied is the answer to a call.
type replied struct {
	News    *News            `json:"news,omitempty"`
	Stdin   *Stdin           `json:"stdin,omitempty"`
	Refused *problem.Problem `json:"refused,omitempty"`
}

// Stdin is the answer to a piece of stdin in a message.
type Stdin struct {
	command.Taken
	// Refused is why the piece was not taken, or nil.
	Refused *problem.Problem `json:"refused,omitempty"`
}

// Answer returns the answer to a Control as it is in a message. Of a piece of stdin, the error is a part of the answer.
func Answer(c *command.Control, t *command.Taken, err error) (*Stdin, error) {
	if c.Stdin == nil {
		return nil, err
	}
	s := &Stdin{}
	if t != nil {
		s.Taken = *t
	}
	if err != nil {
		p := problem.From(err)
		s.Refused = &p
	}
	return s, nil
}

// Answered is the inverse of Answer.
func Answered(c *command.Control, s *Stdin, err error) (*command.Taken, error) {
	switch {
	case err != nil || c.Stdin == nil:
		return nil, err
	case s == nil || s.Took < 0 || s.Took > len(c.Stdin.Data):
		return nil, errors.New("the owner of the command returned an invalid response")
	case s.Refused != nil:
		return &s.Taken, *s.Refused
	}
	return &s.Taken, nil
}

// Refused returns an error of package command as one of package reprise.
func Refused(err error) error {
	r, ok := errors.AsType[*command.Refusal](err)
	if !ok {
		return err
	}
	kind := reprise.ErrInvalid
	switch r.Kind {
	case command.Ended:
		kind = reprise.ErrEnded
	case command.Conflict:
		kind = reprise.ErrConflict
	case command.Unknown:
		kind = reprise.ErrUnavailable
	case command.Invalid:
	}
	return fmt.Errorf("%w: %w", kind, err)
}
