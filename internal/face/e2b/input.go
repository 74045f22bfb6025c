package e2b

import (
	"bytes"
	"errors"
	"io"

	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/web"
)

type input struct {
	Stdin []byte `json:"stdin"`
	Pty   []byte `json:"pty"`
}

// write writes to the stdin of a process.
func (a API) write(x *web.Exchange, id string, in *input, eof bool) error {
	data := in.Stdin
	if data == nil {
		data = in.Pty
	}
	_, err := a.Host.WriteStdin(x.R.Context(), x.Who.Tenant, id, execution.StdinWrite{
		Offset: -1, Data: bytes.NewReader(data), EOF: eof,
	})
	return ended(err)
}

func (a API) sendInput(x *web.Exchange, q *struct {
	Process selector `json:"process"`
	Input   input    `json:"input"`
},
) (any, error) {
	id, err := a.use(x, identity.ScopeRun, &q.Process)
	if err != nil {
		return nil, err
	}
	return nothing{}, a.write(x, id, &q.Input, false)
}

func (a API) closeStdin(x *web.Exchange, q *struct {
	Process selector `json:"process"`
},
) (any, error) {
	id, err := a.use(x, identity.ScopeRun, &q.Process)
	if err != nil {
		return nil, err
	}
	return nothing{}, a.write(x, id, &input{}, true)
}

// streamInput writes what comes, until the request ends.
func (a API) streamInput(x *web.Exchange) error {
	body, err := x.Body(1 << 40)
	if err != nil {
		return err
	}
	id := ""
	for {
		var q struct {
			Start *struct {
				Process selector `json:"process"`
			} `json:"start"`
			Data *struct {
				Input input `json:"input"`
			} `json:"data"`
		}
		switch err := readEnvelope(body, &q); {
		case errors.Is(err, io.EOF):
			s := begin(x)
			if err = s.send(nothing{}); err == nil {
				err = s.end(nil)
			}
			return err
		case err != nil:
			return err
		}
		switch {
		case q.Start != nil:
			if id, err = a.use(x, identity.ScopeRun, &q.Start.Process); err != nil {
				return err
			}
		case q.Data != nil && id == "":
			return invalid("the first message names the process")
		case q.Data != nil:
			if err := a.write(x, id, &q.Data.Input, false); err != nil {
				return err
			}
		}
	}
}
