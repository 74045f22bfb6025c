package execd

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/face/contexts"
	"reprise/internal/identity"
	"reprise/internal/web"
)

// A session and a code context are interpreters. The label tells them apart.
var (
	sessionLabels = map[string]string{labelKind: "session"}
	codeLabels    = map[string]string{labelKind: "code"}
)

// noContext gives an error that an interpreter does not exist the code of execd.
func noContext(err error) error { return asCode(err, http.StatusNotFound, codeNoContext) }

func (a API) openSession(x *web.Exchange) error {
	var q struct {
		Cwd string `json:"cwd"`
	}
	if err := decode(x, &q); err != nil {
		return err
	}
	i, err := a.contexts().Open(x, interpreter.Request{
		Language: "bash", Cwd: a.directory(q.Cwd, nil), Labels: sessionLabels,
	})
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, map[string]string{"session_id": i.ID})
}

func (a API) contexts() contexts.Contexts { return contexts.Contexts{Host: a.Host, Label: labelKind} }

// find returns a session or a code context, if the sender has a scope for it.
func (a API) find(x *web.Exchange, scope identity.Scope, id string) (interpreter.Interpreter, error) {
	i, err := a.contexts().Find(x, scope, id)
	return i, noContext(err)
}

func (a API) runInSession(x *web.Exchange) error {
	var q struct {
		Command string `json:"command"`
		Cwd     string `json:"cwd"`
		Timeout *int64 `json:"timeout"` // in ms
	}
	if err := decode(x, &q); err != nil {
		return err
	}
	if strings.TrimSpace(q.Command) == "" {
		return badBody("command is needed")
	}
	i, err := a.find(x, identity.ScopeRun, x.R.PathValue("id"))
	if err != nil {
		return err
	}
	code := q.Command
	if q.Cwd != "" {
		code = "cd -- '" + strings.ReplaceAll(a.directory(q.Cwd, nil), "'", `'\''`) + "' || return\n" + code
	}
	req := execution.Request{Interpreter: i.ID, Code: code, Labels: sessionLabels}
	if req.Timeout, err = timeout(q.Timeout); err != nil {
		return err
	}
	return a.runIn(x, req, ofSession, nil)
}

// runIn runs code in an interpreter and answers with its events.
func (a API) runIn(x *web.Exchange, req execution.Request, k kind, opened func(*stream)) error {
	if err := a.grants().MayUse(x, identity.ScopeRead, req.Interpreter); err != nil {
		return noContext(err)
	}
	err := a.startAndFollow(x, req, k, req.Interpreter, opened)
	if errors.Is(err, reprise.ErrEnded) {
		return noContext(reprise.ErrNotFound)
	}
	if errors.Is(err, reprise.ErrConflict) {
		return runtimeError("session is busy")
	}
	return err
}

type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
}

// languages are the names of the languages of interpreters by execd's names.
var languages = map[string]string{
	"python": "python", "python3": "python", "javascript": "javascript", "js": "javascript", "node": "javascript",
	"bash": "bash", "shell": "bash",
}

func languageOf(name string) (string, error) {
	language, ok := languages[strings.ToLower(name)]
	if !ok {
		return "", runtimeError("there is no kernel for %q: python, javascript and bash are there", name)
	}
	return language, nil
}

func (a API) openContext(x *web.Exchange) error {
	var q struct {
		Language string `json:"language"`
		Cwd      string `json:"cwd"`
	}
	if err := decode(x, &q); err != nil {
		return err
	}
	if q.Language == "" {
		return badBody("language is needed")
	}
	language, err := languageOf(q.Language)
	if err != nil {
		return err
	}
	i, err := a.contexts().Open(x, interpreter.Request{
		Language: language, Cwd: a.directory(q.Cwd, nil), Labels: codeLabels,
	})
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, codeContext{i.ID, cmp.Or(q.Language, i.Language)})
}

// codeContexts returns the code contexts of a language, "" for all, that the sender may see.
func (a API) codeContexts(x *web.Exchange, language string) ([]codeContext, error) {
	all, err := a.contexts().List(x)
	list := []codeContext{}
	for n := range all {
		if i := &all[n]; i.Labels[labelKind] == "code" &&
			(language == "" || i.Language == languages[strings.ToLower(language)]) {
			list = append(list, codeContext{i.ID, i.Language})
		}
	}
	return list, err
}

func (a API) listContexts(x *web.Exchange) error {
	list, err := a.codeContexts(x, x.R.URL.Query().Get("language"))
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, list)
}

func (a API) showContext(x *web.Exchange) error {
	i, err := a.find(x, identity.ScopeRead, x.R.PathValue("id"))
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, codeContext{i.ID, i.Language})
}

// closeContext ends a session or a code context.
func (a API) closeContext(x *web.Exchange) error {
	if err := a.contexts().Close(x, x.R.PathValue("id")); err != nil {
		return noContext(err)
	}
	return empty(x)
}

// closeContexts ends the code contexts of a language.
func (a API) closeContexts(x *web.Exchange) error {
	language := x.R.URL.Query().Get("language")
	if language == "" {
		return missing("language")
	}
	list, err := a.codeContexts(x, language)
	if err != nil {
		return err
	}
	for _, c := range list {
		err := a.contexts().Close(x, c.ID)
		if err != nil && !errors.Is(err, reprise.ErrNotFound) && !errors.Is(err, identity.ErrForbidden) {
			return err
		}
	}
	return empty(x)
}

func (a API) runCode(x *web.Exchange) error {
	var q struct {
		Code    string      `json:"code"`
		Context codeContext `json:"context"`
	}
	if err := decode(x, &q); err != nil {
		return err
	}
	if q.Code == "" {
		return badBody("code is needed")
	}
	if q.Context.ID == "" && q.Context.Language == "" {
		return a.runText(x, q.Code)
	}
	id := q.Context.ID
	if id == "" {
		language, err := languageOf(q.Context.Language)
		if err == nil {
			id = "execd-" + language
			err = a.contexts().Default(x, interpreter.Request{ID: id, Language: language, Labels: codeLabels})
		}
		if err != nil {
			return err
		}
	}
	i, err := a.find(x, identity.ScopeRun, id)
	if err != nil {
		return err
	}
	req := execution.Request{Interpreter: i.ID, Code: q.Code, Labels: codeLabels}
	return a.runIn(x, req, ofCode, func(s *stream) {
		if now, err := interpreter.Show(x.R.Context(), a.Host, x.Who.Tenant, i.ID); err == nil && now.Runs != nil {
			s.add(&event{Type: "execution_count", ExecutionCount: *now.Runs, Timestamp: now.Created.UnixMilli()})
		}
	})
}

// runText runs code without a language, which is a command.
func (a API) runText(x *web.Exchange, code string) error {
	if err := x.MayMake(identity.ScopeRead, "", "session"); err != nil {
		return err
	}
	req, err := a.execution(x, &commandRequest{Command: code})
	if err != nil {
		return err
	}
	return a.startAndFollow(x, req, ofCommand, "", nil)
}
