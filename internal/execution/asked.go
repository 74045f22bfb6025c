package execution

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"reprise"
	"reprise/client"
)

// maxAsked is the size limit of meta.Asked.
const maxAsked = 6 << 10

// ask keeps the members of a request that are no secrets and have no other place in m, and the names of those that are
// not kept: input and code, which may be secrets as the values of variables may be, and what is too long. allNames
// reports whether m.EnvNames has all names of variables.
func (m *meta) ask(req *Request, allNames bool) {
	asked := Request{
		Shell: req.Shell, StdinOpen: req.StdinOpen, Grace: req.Grace, Limits: req.Limits, Isolation: req.Isolation,
		Access: req.Access, Artifacts: req.Artifacts, Secrets: req.Secrets, MaskSecrets: req.MaskSecrets,
		User: req.User,
	}
	missing := func(name string, is bool) {
		if is {
			m.Missing = append(m.Missing, name)
		}
	}
	missing("argv", !slices.Equal(m.Argv, req.Argv))
	missing("command", m.Command != req.Command)
	missing("cwd", m.Cwd != req.Cwd)
	missing("env", !allNames)
	missing("code", req.Code != "" || req.Clear)
	missing("stdin", req.Stdin != nil || req.StdinBase64 != nil)
	if len(mustMarshal(asked)) > maxAsked {
		missing("access", !reflect.ValueOf(asked.Access).IsZero())
		missing("artifacts", len(asked.Artifacts) > 0)
		missing("secrets", len(asked.Secrets) > 0)
		asked.Access, asked.Artifacts, asked.Secrets = client.Access{}, nil, nil
	}
	if !reflect.ValueOf(asked).IsZero() {
		m.Asked = &asked
	}
}

// Requested returns the request of an execution without its id and key, and the names of the members that it had and
// that are not kept, "env.NAME" for a variable. It returns the same errors as Stream.
func (h *Host) Requested(ctx context.Context, tenant reprise.Tenant, id string) (
	req Request, missing []string, err error,
) {
	_, info, err := h.streamInfo(ctx, tenant, id)
	if err != nil {
		return Request{}, nil, err
	}
	var m meta
	_ = json.Unmarshal(info.Config.Meta, &m) // we wrote it
	if m.Asked != nil {
		req = *m.Asked
	}
	req.Argv, req.Command, req.Language, req.Interpreter = m.Argv, m.Command, m.Language, m.Interpreter
	req.Cwd, req.TTY, req.Timeout, req.KillOnDisconnect = m.Cwd, m.TTY, m.Timeout, m.KillOnDisconnect
	req.Session, req.Labels = info.Config.Labels[labelSession], requestLabels(info.Config.Labels)
	kept := info.Config.Retention
	req.Retention = Retention{MaxEvents: kept.MaxEvents, MaxBytes: kept.MaxBytes, MaxAge: Duration(kept.MaxAge)}
	missing = slices.Clone(m.Missing)
	secrets := slices.Collect(maps.Keys(req.Secrets))
	for _, name := range m.EnvNames {
		if !slices.Contains(secrets, name) {
			missing = append(missing, "env."+name)
		}
	}
	return req, missing, nil
}
