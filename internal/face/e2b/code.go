package e2b

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/face/contexts"
	"reprise/internal/identity"
	"reprise/internal/web"
	"reprise/internal/wire"
)

// label marks the interpreters that are code contexts.
const label = "e2b"

type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Cwd      string `json:"cwd"`
}

// languages are the languages of interpreters by their names in E2B.
var languages = map[string]string{
	"": "python", "python": "python", "python3": "python", "javascript": "javascript", "js": "javascript",
	"bash": "bash",
}

func languageOf(name string) (string, error) {
	language, ok := languages[strings.ToLower(name)]
	if !ok {
		return "", invalid("there is no kernel for %q: python, javascript and bash are there", name)
	}
	return language, nil
}

func (a API) contexts() contexts.Contexts { return contexts.Contexts{Host: a.Host, Label: label} }

// request is one for an interpreter of the sandbox.
func (a API) request(x *web.Exchange, id, language, cwd string) interpreter.Request {
	return interpreter.Request{
		ID: id, Language: language, Cwd: a.absolute(cwd), Session: session(x),
		Labels: map[string]string{label: "context"},
	}
}

func (a API) openContext(x *web.Exchange) error {
	var q codeContext
	if err := decode(x, &q); err != nil {
		return err
	}
	language, err := languageOf(q.Language)
	if err != nil {
		return err
	}
	i, err := a.contexts().Open(x, a.request(x, "", language, q.Cwd))
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, codeContext{i.ID, i.Language, i.Cwd})
}

func (a API) listContexts(x *web.Exchange) error {
	all, err := a.contexts().List(x)
	if err != nil {
		return err
	}
	list, of := []codeContext{}, session(x)
	for n := range all {
		if i := &all[n]; of == "" || i.Session == of {
			list = append(list, codeContext{i.ID, i.Language, i.Cwd})
		}
	}
	return x.Answer(http.StatusOK, list)
}

func (a API) closeContext(x *web.Exchange) error {
	if err := a.contexts().Close(x, x.R.PathValue("id")); err != nil {
		return err
	}
	return x.Done()
}

// restartContext deletes all declarations of a context.
func (a API) restartContext(x *web.Exchange) error {
	i, err := a.contexts().Find(x, identity.ScopeRun, x.R.PathValue("id"))
	if err != nil {
		return err
	}
	reader, err := a.runIn(x, execution.Request{Interpreter: i.ID, Clear: true})
	if err != nil {
		return err
	}
	defer reader.Close()
	for _, err := range reader.Events(x.R.Context()) {
		if err != nil {
			return err
		}
	}
	return x.Done()
}

// runIn runs code in a context, and returns a reader of its events.
func (a API) runIn(x *web.Exchange, req execution.Request) (*reprise.Reader, error) {
	e, _, err := a.Host.StartFor(x.R.Context(), x.Who.Holder(), req)
	if err != nil {
		return nil, err
	}
	x.W.Header().Set("Execution-Id", e.ID)
	x.Record().Execution = e.ID
	on, err := a.Host.Stream(x.R.Context(), x.Who.Tenant, e.ID)
	if err != nil {
		return nil, err
	}
	return on.Reader(x.R.Context(), reprise.Earliest())
}

// execute runs code in a context and answers with what it prints and shows, a line of JSON each.
func (a API) execute(x *web.Exchange) error {
	var q struct {
		Code     string            `json:"code"`
		Context  string            `json:"context_id"`
		Language string            `json:"language"`
		Envs     map[string]string `json:"env_vars"`
	}
	if err := decode(x, &q); err != nil {
		return err
	}
	if len(q.Envs) > 0 {
		return invalid("env_vars: variables are set in the code, or with a context")
	}
	id := q.Context
	if id == "" {
		language, err := languageOf(q.Language)
		if err == nil {
			id = idPrefix + session(x) + "-" + language
			err = a.contexts().Default(x, a.request(x, id, language, ""))
		}
		if err != nil {
			return err
		}
	}
	i, err := a.contexts().Find(x, identity.ScopeRun, id)
	if err == nil {
		err = a.grants().MayUse(x, identity.ScopeRead, id)
	}
	if err == nil {
		err = a.Reads.Enter(x)
	}
	if err != nil {
		return err
	}
	reader, err := a.runIn(x, execution.Request{Interpreter: i.ID, Code: q.Code})
	if err != nil {
		return err
	}
	defer reader.Close()
	x.EndWithServer()
	x.EndWithConnection()
	x.W.Header().Set("Content-Type", web.NDJSON)
	x.AllowWrite()
	x.W.WriteHeader(http.StatusOK)
	c := coder{out: x.Steady(true)}
	if now, err := interpreter.Show(x.R.Context(), a.Host, x.Who.Tenant, i.ID); err == nil && now.Runs != nil {
		c.line(map[string]any{"type": "number_of_executions", "execution_count": *now.Runs})
	}
	err = each(x.R.Context(), reader, time.Hour, func(e *reprise.Event) error {
		c.event(e)
		_, err := c.out.Write(c.lines)
		c.lines = c.lines[:0]
		return err
	}, func() error { return nil })
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// coder writes the lines of a response.
type coder struct {
	out    *web.SteadyWriter
	lines  []byte // to be written
	thrown bool
}

func (c *coder) line(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // text, numbers and JSON
	}
	c.lines = append(reprise.AppendJSONLine(c.lines, text), '\n')
}

// resultNames are the members of a result by the types of what it has.
var resultNames = map[string]string{
	"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "text/latex": "latex",
	"image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf",
	"application/json": "json", "application/javascript": "javascript",
}

func (c *coder) event(e *reprise.Event) {
	switch e.Type {
	case execution.Stdout, execution.Stderr:
		c.line(map[string]any{"type": e.Type, "text": string(e.Data), "timestamp": e.Time.UnixMicro()})
	case "result", "display":
		var value struct {
			MIME map[string]json.RawMessage `json:"mime"`
		}
		if json.Unmarshal(e.Data, &value) != nil {
			return
		}
		line := map[string]any{"type": "result", "is_main_result": e.Type == "result"}
		for kind, data := range value.MIME {
			if name := resultNames[kind]; name != "" {
				line[name] = data
			}
		}
		c.line(line)
	case "exception":
		var told struct {
			Name      string   `json:"name"`
			Value     string   `json:"value"`
			Traceback []string `json:"traceback"`
		}
		if json.Unmarshal(e.Data, &told) == nil {
			c.fail(told.Name, told.Value, strings.Join(told.Traceback, "\n"))
		}
	case reprise.TypeEnd:
		var how wire.Ending
		_ = json.Unmarshal(e.Data, &how) // the server wrote it
		if end := endOf(&how); end.ExitCode != 0 && !c.thrown {
			c.fail("ExecutionError", end.Error, "")
		}
		c.line(map[string]any{"type": "end_of_execution"})
	}
}

func (c *coder) fail(name, value, traceback string) {
	c.thrown = true
	c.line(map[string]any{"type": "error", "name": name, "value": value, "traceback": traceback})
}
