package e2b

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

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
	// Prefix is where the paths of E2B begin, without a slash at its end.
	Prefix string
	Log    *reprise.Log
	Host   *execution.Host
	Reads  *reads.Service
	// Files are the directories of clients. Its Roots are nil where there are none.
	Files files.API
	// Dir is the directory of relative paths, and Home what a tilde at the beginning of a path stands for.
	Dir, Home string
}

// The headers of credentials: to envd, to what else listens in a sandbox, and to the control plane.
const (
	tokenHeader   = "X-Access-Token"
	trafficHeader = "E2b-Traffic-Access-Token"
	apiKeyHeader  = "X-Api-Key"
)

// The header of the sandbox that a request is for.
const sandboxHeader = "E2b-Sandbox-Id"

// userHeader has the user that a request names by Authorization: Basic, which is no credential in envd.
const userHeader = "E2b-Named-User"

// credential implements Credential of web.Face.
func credential(h http.Header) []string {
	h.Del(userHeader)
	if named, ok := strings.CutPrefix(h.Get("Authorization"), "Basic "); ok {
		text, _ := base64.StdEncoding.DecodeString(named)
		user, _, _ := strings.Cut(string(text), ":")
		h.Del("Authorization")
		h.Set(userHeader, user)
	}
	for _, name := range []string{tokenHeader, trafficHeader} {
		if shown := h.Values(name); len(shown) > 0 {
			return shown
		}
	}
	return h.Values(apiKeyHeader)
}

// Routes implements web.Part. A client that adds "/after/SEEN" to the address of its sandbox is sent, when it connects
// to a process, what it has not seen; see connect.
func (a API) Routes(m *web.Mux) {
	m.AddFace(&web.Face{Prefixes: []string{a.Prefix + "/"}, Credential: credential, Refuse: refuse})
	const read, run, control = identity.ScopeRead, identity.ScopeRun, identity.ScopeControl
	for _, rt := range []struct {
		method, path string
		scope        identity.Scope
		serve        func(*web.Exchange) error
	}{
		{"GET", "/health", web.Public, (*web.Exchange).Done},
		{"POST", "/process.Process/Start", run, a.start},
		{"POST", "/process.Process/Connect", read, a.connect},
		{"POST", "/process.Process/List", read, unary(a.listProcesses)},
		{"POST", "/process.Process/SendInput", run, unary(a.sendInput)},
		{"POST", "/process.Process/StreamInput", run, a.streamInput},
		{"POST", "/process.Process/CloseStdin", run, unary(a.closeStdin)},
		{"POST", "/process.Process/Update", run, unary(a.update)},
		{"POST", "/process.Process/SendSignal", control, unary(a.sendSignal)},
		{"POST", "/filesystem.Filesystem/Stat", read, unary(a.stat)},
		{"POST", "/filesystem.Filesystem/ListDir", read, unary(a.listDir)},
		{"POST", "/filesystem.Filesystem/MakeDir", run, unary(a.makeDir)},
		{"POST", "/filesystem.Filesystem/Move", run, unary(a.move)},
		{"POST", "/filesystem.Filesystem/Remove", run, unary(a.removeFile)},
		{"POST", "/filesystem.Filesystem/WatchDir", read, a.watchDir},
		{"POST", "/filesystem.Filesystem/CreateWatcher", read, unary(a.createWatcher)},
		{"POST", "/filesystem.Filesystem/GetWatcherEvents", read, unary(a.watcherEvents)},
		{"POST", "/filesystem.Filesystem/RemoveWatcher", read, unary(a.removeWatcher)},
		{"GET", "/files", read, a.download},
		{"POST", "/files", run, a.upload},
		{"POST", "/execute", run, a.execute},
		{"POST", "/contexts", run, a.openContext},
		{"GET", "/contexts", read, a.listContexts},
		{"DELETE", "/contexts/{id}", control, a.closeContext},
		{"POST", "/contexts/{id}/restart", run, a.restartContext},
		{"POST", "/sandboxes", run, a.createSandbox},
		{"POST", "/v2/sandboxes", run, a.createSandbox},
		{"GET", "/v2/sandboxes", read, a.listSandboxes},
		{"GET", "/sandboxes/{id}", read, a.showSandbox},
		{"POST", "/sandboxes/{id}/connect", read, a.connectSandbox},
		{"POST", "/v2/sandboxes/{id}/connect", read, a.connectSandbox},
		{"POST", "/sandboxes/{id}/timeout", read, (*web.Exchange).Done},
		{"DELETE", "/sandboxes/{id}", control, a.killSandbox},
	} {
		for _, at := range []string{a.Prefix, a.Prefix + "/after/{seen}"} {
			m.Handle(rt.method, at+rt.path, rt.scope, nil, rt.serve, web.AnyQuery)
		}
	}
}

func (a API) grants() grants.Executions { return grants.Executions{Host: a.Host} }

// maxBody bounds bodies of JSON, in bytes.
const maxBody = 8 << 20

// decode reads a body of JSON, whatever its media type is. Unknown members are ignored.
func decode(x *web.Exchange, v any) error {
	text, err := x.ReadBody(maxBody)
	if err != nil {
		return err
	}
	return decodeText(text, v)
}

func decodeText(text []byte, v any) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, v); err != nil {
		return invalid("the body is not valid: %v", err)
	}
	return nil
}

// unary returns the handler of a call with one message each way.
func unary[Q any](serve func(*web.Exchange, *Q) (any, error)) func(*web.Exchange) error {
	return func(x *web.Exchange) error {
		var q Q
		if err := decode(x, &q); err != nil {
			return err
		}
		answer, err := serve(x, &q)
		if err != nil {
			return err
		}
		return x.Answer(http.StatusOK, answer)
	}
}

// nothing is the message without members.
type nothing struct{}

// The codes of the protocol Connect.
const (
	codeInvalid     = "invalid_argument"
	codeNotFound    = "not_found"
	codeExists      = "already_exists"
	codeDenied      = "permission_denied"
	codeUnknown     = "unauthenticated"
	codeExhausted   = "resource_exhausted"
	codeState       = "failed_precondition"
	codeMissing     = "unimplemented"
	codeRange       = "out_of_range"
	codeInternal    = "internal"
	codeUnavailable = "unavailable"
)

// statuses are the HTTP statuses of the codes, outside of streams.
var statuses = map[string]int{
	codeInvalid: http.StatusBadRequest, codeNotFound: http.StatusNotFound, codeExists: http.StatusConflict,
	codeDenied: http.StatusForbidden, codeUnknown: http.StatusUnauthorized, codeExhausted: http.StatusTooManyRequests,
	codeState: http.StatusBadRequest, codeMissing: http.StatusNotImplemented, codeRange: http.StatusBadRequest,
	codeInternal: http.StatusInternalServerError, codeUnavailable: http.StatusServiceUnavailable,
}

// refusal is an error with a code of the protocol.
type refusal struct{ code, reason string }

func (r *refusal) Error() string { return r.reason }

// Problem implements problem.Teller.
func (r *refusal) Problem(detail string) problem.Problem {
	code := problem.CodeInvalid
	switch r.code {
	case codeNotFound:
		code = problem.CodeNotFound
	case codeExists, codeState:
		code = problem.CodeConflict
	case codeRange:
		code = problem.CodeCursorExpired
	}
	p := problem.New(code, detail)
	p.Status = statuses[r.code]
	return p
}

func invalid(format string, args ...any) error {
	return &refusal{codeInvalid, fmt.Sprintf(format, args...)}
}

// codeOf returns the code of an error.
func codeOf(err error, p *problem.Problem) string {
	if known, ok := errors.AsType[*refusal](err); ok {
		return known.code
	}
	switch p.Status {
	case http.StatusUnauthorized:
		return codeUnknown
	case http.StatusForbidden:
		return codeDenied
	case http.StatusNotFound, http.StatusGone:
		return codeNotFound
	case http.StatusConflict:
		return codeState
	case http.StatusTooManyRequests, http.StatusInsufficientStorage, http.StatusRequestEntityTooLarge:
		return codeExhausted
	case http.StatusServiceUnavailable:
		return codeUnavailable
	case http.StatusInternalServerError:
		return codeInternal
	}
	return codeInvalid
}

// refuse implements Refuse of web.Face. A stream is refused by its only message.
func refuse(w http.ResponseWriter, r *http.Request, err error, p *problem.Problem) {
	code, reason := codeOf(err, p), cmp.Or(p.Detail, p.Title)
	h := w.Header()
	if r.Header.Get("Content-Type") == streamType {
		h.Set("Content-Type", streamType)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(envelope(flagEnd, ending{&rpcError{code, reason}})) // the client may have disconnected
		return
	}
	var body any = rpcError{code, reason}
	status := p.Status
	if strings.Contains(r.URL.Path, "/process.Process/") || strings.Contains(r.URL.Path, "/filesystem.Filesystem/") {
		status = statuses[code]
	} else {
		body = restError{status, reason}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings and a number
	}
	h.Set("Content-Type", web.JSON)
	w.WriteHeader(status)
	_, _ = w.Write(reprise.AppendJSONLine(nil, text))
}

type rpcError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type restError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}
