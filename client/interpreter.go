package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
)

// InterpreterRequest describes an interpreter to open. Code that runs in the interpreter sees the declarations of
// earlier code. It is the body of POST /v1/interpreters. Members that StartRequest also has mean the same.
type InterpreterRequest struct {
	// ID is the id of the interpreter. If it and IdempotencyKey are empty, the client makes an unguessable one.
	ID             string `json:"id,omitempty"`
	IdempotencyKey string `json:"-"`
	Session        string `json:"session,omitempty"`
	// Language is "bash", "javascript" or "python".
	Language string            `json:"language,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	// IdleTimeout ends the interpreter after that time without code, Timeout after that time in total. 0 means the
	// server's default.
	IdleTimeout Duration `json:"idle_timeout,omitzero"`
	Timeout     Duration `json:"timeout,omitzero"`
	Grace       Duration `json:"grace,omitzero"`
	Limits      Limits   `json:"limits,omitzero"`
	Isolation   string   `json:"isolation,omitempty"`
	Access      Access   `json:"access,omitzero"`
}

// Interpreter is an interpreter as the server shows it. It is an execution, whose output is written by its driver.
type Interpreter struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Session  string `json:"session,omitempty"`
	// Status and Outcome are as of an Execution.
	Status  string            `json:"status"`
	Outcome Outcome           `json:"outcome"`
	Error   string            `json:"error,omitempty"`
	Cwd     string            `json:"cwd"`
	Labels  map[string]string `json:"labels"`
	Created Time              `json:"created"`
	// Ended is zero until then.
	Ended Time `json:"ended"`
	// Running is the id of the running execution, or "" while the interpreter waits for code.
	Running string `json:"running,omitempty"`
	// Runs is the number of runs so far, Used the end of the last one; they are nil and zero once the interpreter has
	// ended.
	Runs *int `json:"runs,omitempty"`
	Used Time `json:"used,omitzero"`
	// IdleTimeout and Timeout are when it ends by itself: after so long without code, and after so long in all.
	IdleTimeout Duration   `json:"idle_timeout,omitzero"`
	Timeout     Duration   `json:"timeout,omitzero"`
	Isolation   *Isolation `json:"isolation"`

	// Raw is the object as the server sent it.
	Raw json.RawMessage `json:"-"`
}

// Exception is the data of an event of type "exception": the failure of code in an interpreter.
type Exception struct {
	Name      string   `json:"name"`
	Value     string   `json:"value"`
	Traceback []string `json:"traceback"`
}

// Result is the data of events of types "result" (the value of the last expression of code in an interpreter) and
// "display".
type Result struct {
	// MIME contains the value by MIME type: text, base64 for images, or JSON.
	MIME map[string]any `json:"mime"`
	// Omitted are the sizes of the representations that were too large.
	Omitted map[string]int `json:"omitted"`
}

// OpenInterpreter starts an interpreter. It retries after a lost connection and starts only one, because every request
// carries an id. Client.Run and Client.Start with StartRequest.Interpreter run code in it.
func (c *Client) OpenInterpreter(ctx context.Context, q InterpreterRequest) (Interpreter, error) {
	if q.ID == "" && q.IdempotencyKey == "" {
		q.ID = rand.Text()
	}
	r, err := jsonRequest("open interpreter "+cmp.Or(q.ID, q.IdempotencyKey), http.MethodPost, "/v1/interpreters", q)
	if err != nil {
		return Interpreter{}, err
	}
	if q.IdempotencyKey != "" {
		r.header.Set("Idempotency-Key", q.IdempotencyKey)
	}
	return answer[Interpreter](ctx, c, r)
}

// Interpreters returns the kept interpreters, the newest first.
func (c *Client) Interpreters(ctx context.Context) ([]Interpreter, error) {
	list, err := answer[struct {
		Interpreters []Interpreter `json:"interpreters"`
	}](ctx, c, &request{op: "list interpreters", method: http.MethodGet, path: "/v1/interpreters"})
	return list.Interpreters, err
}

// Interpreter returns the state of an interpreter.
func (c *Client) Interpreter(ctx context.Context, id string) (Interpreter, error) {
	op := "show interpreter " + id
	if err := checkName(op, id); err != nil {
		return Interpreter{}, err
	}
	return answer[Interpreter](ctx, c, &request{op: op, method: http.MethodGet, path: interpreterPath(id)})
}

// InterruptInterpreter interrupts the running code of an interpreter, by INT, but not the interpreter. Without running
// code it does nothing.
func (c *Client) InterruptInterpreter(ctx context.Context, id string) error {
	op := "interrupt interpreter " + id
	if err := checkName(op, id); err != nil {
		return err
	}
	return c.call(ctx, &request{op: op, method: http.MethodPost, path: interpreterPath(id) + "/interrupt"}, nil)
}

// RemoveInterpreter ends an interpreter and removes it. The executions of its code are kept.
func (c *Client) RemoveInterpreter(ctx context.Context, id string) error {
	return c.remove(ctx, "remove interpreter "+id, id, interpreterPath(id))
}

func interpreterPath(id string) string { return "/v1/interpreters/" + url.PathEscape(id) }
