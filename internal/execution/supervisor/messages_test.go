package supervisor

import (
	"encoding/json"
	"errors"
	"testing"

	"reprise"
	"reprise/internal/execution/command"
)

// TestCallsAreThoseOfEarlierVersions: supervisors outlive upgrades and steps back of their server, so the calls keep
// their form.
func TestCallsAreThoseOfEarlierVersions(t *testing.T) {
	ack := callOf(callAck)
	ack.Ack = 7
	piece := &command.Piece{Offset: 3, Exact: true, Writer: "w", Data: []byte("hi"), EOF: true}
	for want, c := range map[string]call{
		`{"op":"follow"}`:                callOf(callFollow),
		`{"op":"ack","ack":7}`:           ack,
		`{"op":"signal","signal":"INT"}`: {Control: command.Control{Op: command.OpSignal, Signal: "INT"}},
		`{"op":"resize","size":{"cols":9,"rows":8}}`: {
			Control: command.Control{Op: command.OpResize, Size: &command.Size{Cols: 9, Rows: 8}},
		},
		`{"op":"stop","verdict":{"outcome":"cancelled","reason":"why","now":true}}`: {Control: command.Control{
			Op: command.OpStop, Verdict: &command.Verdict{Outcome: command.Cancelled, Reason: "why", Now: true},
		}},
		`{"op":"stdin","stdin":{"offset":-1,"data":null}}`: {
			Control: *command.Give(&command.Piece{Offset: -1}),
		},
		`{"op":"stdin_of","stdin":{"offset":3,"exact":true,"writer":"w","data":"aGk=","eof":true}}`: {
			Control: *command.Give(piece),
		},
	} {
		if got, err := json.Marshal(c); string(got) != want || err != nil {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

// TestAnswersPassAHop: the other side gets the answer and the error that the command has given. A piece of stdin that
// is refused says how much was accepted all the same.
func TestAnswersPassAHop(t *testing.T) {
	refused := Refused(command.ErrHasEnded)
	give := command.Give(&command.Piece{Data: []byte("hi")})
	signal := &command.Control{Op: command.OpSignal, Signal: "INT"}
	for _, tt := range []struct {
		control *command.Control
		taken   *command.Taken
		err     error
	}{
		{give, &command.Taken{Stdin: command.Stdin{Offset: 9, Open: true}, Took: 1, Again: true}, nil},
		{give, &command.Taken{Stdin: command.Stdin{Offset: 9}}, refused},
		{signal, nil, nil},
		{signal, nil, refused},
	} {
		stdin, err := Answer(tt.control, tt.taken, tt.err)
		text, jsonErr := json.Marshal(stdin)
		var came *Stdin
		if jsonErr = errors.Join(jsonErr, json.Unmarshal(text, &came)); jsonErr != nil {
			t.Fatal(jsonErr)
		}
		taken, err := Answered(tt.control, came, err)
		if (taken == nil) != (tt.taken == nil) || taken != nil && *taken != *tt.taken {
			t.Errorf("%+v came as %+v", tt.taken, taken)
		}
		if (err == nil) != (tt.err == nil) || tt.err != nil && !errors.Is(err, reprise.ErrEnded) {
			t.Errorf("%v came as %v", tt.err, err)
		}
	}
	for _, wrong := range []*Stdin{nil, {Taken: command.Taken{Took: 3}}, {Taken: command.Taken{Took: -1}}} {
		if _, err := Answered(give, wrong, nil); err == nil {
			t.Errorf("%+v is taken for an answer: %v", wrong, err)
		}
	}
}
