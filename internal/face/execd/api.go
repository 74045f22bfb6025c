package execd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/files"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/problem"
	"reprise/internal/reads"
	"reprise/internal/web"
)

// API is the face. It implements web.Part.
type API struct {
	// Prefix is where the paths of execd begin, without a slash at its end.
	Prefix string
	Host   *execution.Host
	Reads  *reads.Service
	// Files are the directories of clients. Its Roots are nil where there are none.
	Files files.API
	// Dir is the directory of relative paths, and Home what a tilde at the beginning of a path stands for.
	Dir, Home string
	// Shell runs the commands that are given as text: "bash" or "sh".
	Shell string
}

// The header of the credential, to execd and to the server that knows where execd is.
const (
	tokenHeader  = "X-EXECD-ACCESS-TOKEN"
	apiKeyHeader = "OPEN-SANDBOX-API-KEY"
)

// lifecycle is where the paths of that server begin.
const lifecycle = "/v1/sandboxes/"

// Routes implements web.Part.
func (a API) Routes(m *web.Mux) {
	for prefix, header := range map[string]string{a.Prefix + "/": tokenHeader, lifecycle: apiKeyHeader} {
		m.AddFace(&web.Face{
			Prefixes: []string{prefix}, Refuse: refuse,
			Credential: func(h http.Header) []string { return h.Values(header) },
		})
	}
	m.Handle("GET", lifecycle+"{id}/endpoints/{port}", identity.ScopeRead, nil, a.endpoint, web.AnyQuery)
	const read, run, control = identity.ScopeRead, identity.ScopeRun, identity.ScopeControl
	for _, rt := range []struct {
		method, path string
		scope        identity.Scope
		serve        func(*web.Exchange) error
	}{
		{"GET", "/ping", read, empty},
		{"POST", "/command", run, a.startCommand},
		{"DELETE", "/command", control, a.interrupt},
		{"GET", "/command/{one}/{other}", read, a.command},
		{"POST", "/session", run, a.openSession},
		{"POST", "/session/{id}/run", run, a.runInSession},
		{"DELETE", "/session/{id}", control, a.closeContext},
		{"POST", "/code/context", run, a.openContext},
		{"GET", "/code/contexts", read, a.listContexts},
		{"DELETE", "/code/contexts", control, a.closeContexts},
		{"GET", "/code/contexts/{id}", read, a.showContext},
		{"DELETE", "/code/contexts/{id}", control, a.closeContext},
		{"POST", "/code", run, a.runCode},
		{"DELETE", "/code", control, a.interrupt},
		{"GET", "/files/info", read, a.info},
		{"DELETE", "/files", run, a.removeFiles},
		{"POST", "/files/permissions", run, a.setPermissions},
		{"POST", "/files/mv", run, a.move},
		{"GET", "/files/search", read, a.search},
		{"POST", "/files/replace", run, a.replace},
		{"POST", "/files/upload", run, a.upload},
		{"GET", "/files/download", read, a.download},
		{"GET", "/directories/list", read, a.list},
		{"POST", "/directories", run, a.makeDirectories},
		{"DELETE", "/directories", run, a.removeDirectories},
		{"GET", "/metrics", read, a.metrics},
		{"GET", "/metrics/watch", read, a.watchMetrics},
		{"GET", "/v1/isolated/capabilities", read, capabilities},
	} {
		m.Handle(rt.method, a.Prefix+rt.path, rt.scope, nil, rt.serve, web.AnyQuery)
	}
}

// endpoint tells an SDK where execd is, for any sandbox and port: there is one of both.
func (a API) endpoint(x *web.Exchange) error {
	headers := map[string]string{}
	if key := x.R.Header.Get(apiKeyHeader); key != "" {
		headers[tokenHeader] = key // which the sender has shown
	}
	return x.Answer(http.StatusOK, map[string]any{"endpoint": x.R.Host + a.Prefix, "headers": headers})
}

func empty(x *web.Exchange) error {
	x.W.WriteHeader(http.StatusOK)
	return nil
}

// capabilities says that there are no isolated sessions. Commands are isolated as the operator says.
func capabilities(x *web.Exchange) error {
	return x.Answer(http.StatusOK, map[string]any{
		"available": false, "commit_supported": false, "diff_supported": false,
		"hardening": map[string]any{"init_mode": "none"},
	})
}

func (a API) grants() grants.Executions { return grants.Executions{Host: a.Host} }

// maxBody bounds bodies of JSON, in bytes.
const maxBody = 8 << 20

// decode reads a body of JSON, whatever its media type is. Unknown members are ignored. v stays as it is if the body is
// empty.
func decode(x *web.Exchange, v any) error {
	text, err := x.ReadBody(maxBody)
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return badBody("the body is not valid: %v", err)
	}
	return nil
}

// The codes of execd.
const (
	codeBody      = "INVALID_REQUEST_BODY"
	codeQuery     = "MISSING_QUERY"
	codeRuntime   = "RUNTIME_ERROR"
	codeFile      = "INVALID_FILE"
	codeMetadata  = "INVALID_FILE_METADATA"
	codeNoFile    = "FILE_NOT_FOUND"
	codeNoContext = "CONTEXT_NOT_FOUND"
	codeRange     = "UNKNOWN"
	codeNone      = "NOT_SUPPORTED"
	codeWindow    = "REPLAY_WINDOW_EXCEEDED"
)

// refusal is an error with a status and a code of execd.
type refusal struct {
	status int
	code   string
	reason string
}

func (r *refusal) Error() string { return r.reason }

// Problem implements problem.Teller.
func (r *refusal) Problem(detail string) problem.Problem {
	code := problem.CodeInvalid
	switch r.status {
	case http.StatusNotFound:
		code = problem.CodeNotFound
	case http.StatusGone:
		code = problem.CodeCursorExpired
	case http.StatusInternalServerError:
		code = problem.CodeConflict
	}
	p := problem.New(code, detail)
	p.Status = r.status
	return p
}

func badBody(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, codeBody, fmt.Sprintf(format, args...)}
}

// missing is the refusal of a request without a parameter.
func missing(name string) error {
	return &refusal{http.StatusBadRequest, codeQuery, "the parameter " + name + " is needed"}
}

// runtimeError is how execd refuses what it cannot do.
func runtimeError(format string, args ...any) error {
	return &refusal{http.StatusInternalServerError, codeRuntime, fmt.Sprintf(format, args...)}
}

// asCode gives an error that something does not exist the code that execd has for it. It returns other errors as they
// are.
func asCode(err error, status int, code string) error {
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return &refusal{status, code, err.Error()}
	}
	return err
}

// refuse implements Refuse of web.Face.
func refuse(w http.ResponseWriter, _ *http.Request, err error, p *problem.Problem) {
	status, code := p.Status, ""
	if known, ok := errors.AsType[*refusal](err); ok {
		code = known.code
	}
	switch p.Code {
	case problem.CodeInvalid:
		if status == http.StatusRequestedRangeNotSatisfiable {
			code = codeRange
		}
		if status == http.StatusUnprocessableEntity {
			status = http.StatusBadRequest
		}
		code = cmp.Or(code, codeBody)
	case problem.CodeStoreUnavailable, problem.CodeShuttingDown:
		code = "SERVICE_UNAVAILABLE"
	default:
		code = cmp.Or(code, codeRuntime)
	}
	body := map[string]string{"code": code, "message": cmp.Or(p.Detail, p.Title)}
	if p.Code == problem.CodeUnauthenticated {
		body = map[string]string{"error": "Unauthorized: " + cmp.Or(p.Detail, p.Title)}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.Header().Set("Content-Type", web.JSON)
	w.WriteHeader(status)
	_, _ = w.Write(reprise.AppendJSONLine(nil, text)) // the client may have disconnected
}
