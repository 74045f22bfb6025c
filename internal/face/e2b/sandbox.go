package e2b

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/web"
)

// envdVersion is the version of envd whose abilities are offered: the SDKs ask older ones for less, and newer ones for
// metadata of files.
const envdVersion = "0.6.1"

// sandbox is how a sandbox is shown: a name for a session of executions. Any name is one.
type sandbox struct {
	SandboxID  string            `json:"sandboxID"`
	TemplateID string            `json:"templateID"`
	ClientID   string            `json:"clientID"`
	Version    string            `json:"envdVersion"`
	Token      string            `json:"envdAccessToken,omitempty"`
	Traffic    string            `json:"trafficAccessToken,omitempty"`
	Started    time.Time         `json:"startedAt"`
	End        time.Time         `json:"endAt"`
	State      string            `json:"state"`
	CPUs       int               `json:"cpuCount"`
	MemoryMB   int               `json:"memoryMB"`
	DiskMB     int               `json:"diskSizeMB"`
	Metadata   map[string]string `json:"metadata"`
}

// show returns a sandbox. It has no end: the time is far away.
func show(id string, started time.Time) sandbox {
	return sandbox{
		SandboxID: id, TemplateID: "reprise", ClientID: "reprise", Version: envdVersion, Started: started.UTC(),
		End: started.UTC().AddDate(10, 0, 0), State: "running", CPUs: 1, MemoryMB: 1024, DiskMB: 1024,
		Metadata: map[string]string{},
	}
}

// answerSandbox answers with a sandbox, and the credential that the sender has shown.
func answerSandbox(x *web.Exchange, status int, id string) error {
	s := show(id, time.Now())
	s.Token = x.R.Header.Get(apiKeyHeader)
	s.Traffic = s.Token
	return x.Answer(status, s)
}

func (a API) createSandbox(x *web.Exchange) error {
	id := "sandbox-" + strings.ToLower(rand.Text())
	if err := x.MayMake(identity.ScopeRun, id, "session"); err != nil {
		return err
	}
	return answerSandbox(x, http.StatusCreated, id)
}

// named returns the sandbox in the path.
func named(x *web.Exchange) (string, error) {
	id := x.R.PathValue("id")
	if (&execution.Request{ID: "x", Session: id, Argv: []string{"x"}}).Validate() != nil {
		return "", &refusal{codeNotFound, "there is no sandbox of this name"}
	}
	return id, nil
}

func (a API) connectSandbox(x *web.Exchange) error {
	id, err := named(x)
	if err != nil {
		return err
	}
	return answerSandbox(x, http.StatusOK, id)
}

func (a API) showSandbox(x *web.Exchange) error {
	id, err := named(x)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, show(id, time.Now()))
}

// listSandboxes answers with the sessions that have executions.
func (a API) listSandboxes(x *web.Exchange) error {
	page, err := a.Host.Sessions(x.R.Context(), x.Who.Tenant, execution.SessionQuery{
		Limit: 1000, Allowed: grants.Sessions(x),
	})
	if err != nil {
		return err
	}
	list := []sandbox{}
	for i := range page.Sessions {
		list = append(list, show(page.Sessions[i].ID, page.Sessions[i].Created.Time))
	}
	return x.Answer(http.StatusOK, list)
}

// killSandbox ends and removes the executions of a sandbox.
func (a API) killSandbox(x *web.Exchange) error {
	id, err := named(x)
	if err != nil {
		return err
	}
	if !x.Who.MayOn(identity.ScopeControl, id) {
		return &refusal{codeNotFound, "there is no sandbox of this name"}
	}
	err = a.Host.RemoveSession(x.R.Context(), x.Who.Tenant, id)
	if err != nil && !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	return x.Done()
}
