package execution

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/execution/command"
)

// An execution is a stream named "execution:<id>" whose configuration is the request. So
// the rule of Log.Create, same configuration same stream, other configuration
// conflict, is what makes starting idempotent.

// Namespace begins the names of the streams of executions.
const Namespace = "execution:"

func keyOf(tenant reprise.Tenant, id string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: tenant, Name: Namespace + id}
}

const (
	// labelSession is the label of a stream that holds the session.
	labelSession = "session"
	// labelPrefix stands before the labels of the request.
	labelPrefix = "="
)

// meta is the Meta of the stream: the public part of a request, and a digest of all of it.
type meta struct {
	command.Shown
	Cwd      string   `json:"cwd,omitempty"`
	EnvNames []string `json:"env_names,omitempty"`
	TTY      *TTY     `json:"tty,omitempty"`
	Timeout  Duration `json:"timeout,omitzero"`
	Key      string   `json:"key,omitempty"`
	// Interpreter is the id of the interpreter that runs the code.
	Interpreter string `json:"interpreter,omitempty"`
	// KillOnDisconnect says for other replicas that followers count.
	KillOnDisconnect bool `json:"kill_on_disconnect,omitempty"`
	// Asked has the other members of the request that are kept, nil if it had none. Missing names members that it had
	// and that are not kept; the names of variables are in EnvNames.
	Asked   *Request `json:"asked,omitempty"`
	Missing []string `json:"missing,omitempty"`
	Digest  string   `json:"digest,omitempty"`
}

// Limits of the public part, so that it fits into a Meta even if each byte takes six in JSON.
const (
	shownBytes = 6 << 10 // of the command, or of all arguments
	shownCwd   = 1 << 10
	shownNames = 64
	shownName  = 32
)

// describe returns the public part of a request, without the values of variables, code and stdin.
func describe(req *Request) meta {
	m := meta{
		Shown: command.Shown{Command: command.Shorten(req.Command, shownBytes), Language: req.Language},
		Cwd:   command.Shorten(req.Cwd, shownCwd), TTY: req.TTY, Timeout: req.Timeout, Key: req.Key,
		KillOnDisconnect: req.KillOnDisconnect, Interpreter: req.Interpreter,
	}
	room := shownBytes
	for _, arg := range req.Argv {
		if room <= 0 {
			m.Argv = append(m.Argv, "...")
			break
		}
		arg = command.Shorten(arg, room)
		m.Argv = append(m.Argv, arg)
		room -= len(arg) + 4
	}
	named := slices.AppendSeq(slices.Collect(maps.Keys(req.Env)), maps.Keys(req.Secrets))
	slices.Sort(named)
	for _, name := range named {
		if len(m.EnvNames) == shownNames {
			break
		}
		m.EnvNames = append(m.EnvNames, command.Shorten(name, shownName))
	}
	m.ask(req, slices.Equal(m.EnvNames, named))
	return m
}

// config is the configuration of the stream of a request.
func (h *Host) config(req *Request) reprise.StreamConfig {
	m := describe(req)
	m.Digest = base64.RawURLEncoding.EncodeToString(mac(h.opts.Secret, "reprise execution request 1", canonical(req)))
	labels := make(map[string]string, len(req.Labels)+2)
	for k, v := range req.Labels {
		labels[labelPrefix+k] = v
	}
	if req.Session != "" {
		labels[labelSession] = req.Session
	}
	if d := time.Duration(req.Retention.MaxAgeEach); d > 0 {
		labels[reprise.MaxAgeEachLabel] = d.String()
	}
	return reprise.StreamConfig{
		Labels: labels, Meta: mustMarshal(m),
		Retention: reprise.Retention{
			MaxEvents: req.Retention.MaxEvents,
			MaxBytes:  req.Retention.MaxBytes,
			MaxAge:    time.Duration(req.Retention.MaxAge),
		},
	}
}

// canonical returns a form of the request that is equal for equal requests. It excludes the id, which names the
// execution.
func canonical(req *Request) []byte {
	same := *req
	same.ID = ""
	return append(mustMarshal(same), req.IdempotencyKey...)
}

// mustMarshal is for values that have a JSON form whatever is in them.
func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// mac authenticates parts under a secret and a label for the purpose.
func mac(secret []byte, label string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(label))
	for _, p := range parts {
		mac.Write([]byte{0})
		mac.Write(p)
	}
	return mac.Sum(nil)
}

// id is the id of the execution that a request starts.
func (h *Host) id(tenant reprise.Tenant, req *Request) string {
	switch {
	case req.ID != "":
		return req.ID
	case req.IdempotencyKey != "":
		sum := mac(h.opts.Secret, "reprise execution id 1", []byte(tenant), []byte(req.IdempotencyKey))
		return inName(sum[:16])
	}
	return strings.ToLower(rand.Text())
}
