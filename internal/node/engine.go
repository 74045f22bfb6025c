package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"reprise"
	"reprise/internal/apikey"
	"reprise/internal/audit"
	"reprise/internal/datadir"
	"reprise/internal/identity"
	"reprise/internal/journal"
	"reprise/internal/logins"
	"reprise/internal/quota"
	"reprise/internal/serverproof"
	"reprise/internal/storeurl"
	"reprise/internal/upkeep"
	"reprise/replica"
	"reprise/store/storewrap"
)

// openStore opens the store and observes its calls.
func openStore(ctx context.Context, n *Node) (err error) {
	n.store, err = storeurl.OpenIn(ctx, n.dir.Path, n.Store,
		&storeurl.Options{
			Keys: n.StoreKeys, MakeKeys: true, MaxStreams: n.MaxStreams, Inner: n.Archive, Logger: n.Logger,
		})
	if err != nil {
		return err
	}
	n.store = storewrap.Observe(n.store, n.metrics.StoreCalled)
	n.onClose(n.store.Close)
	n.starts, err = upkeep.OpenStarts(ctx, n.store, filepath.Join(n.dir.Path, datadir.StartsFile), n.Logger)
	if err != nil {
		return err
	}
	n.onClose(n.starts.Close)
	return nil
}

// openQuotas makes the book of quotas.
func openQuotas(_ context.Context, n *Node) error {
	opts := *n.Quotas
	n.quotas = &quotas{}
	opts.Refused, opts.Several = n.metrics.QuotaRefused, n.quotas.several
	n.quotas.Book = quota.New(&opts)
	return nil
}

// openLog opens the log over the store.
func openLog(ctx context.Context, n *Node) (err error) {
	opts := n.Log
	opts.Keys, opts.Quota, opts.Hooks, opts.Logger = n.cursors, n.quotas.kept, n.metrics.LogHooks(), n.Logger
	counted := opts.Hooks.Committed
	opts.Hooks.Committed = func(c reprise.CommitInfo) {
		counted(c)
		n.starts.Used()
	}
	if n.log, err = reprise.Open(ctx, n.store, &opts); err != nil {
		return err
	}
	n.onClose(n.log.Close)
	return nil
}

// openMember joins the replicas of the store, if there can be any.
func openMember(ctx context.Context, n *Node) (err error) {
	n.member, n.left = nil, 0
	if !n.log.Shared() {
		return nil
	}
	if err := agreeOnKeys(ctx, n.log, n.cursors); err != nil {
		return err
	}
	n.member, err = replica.Join(ctx, n.log, &replica.Options{Name: n.Options.Replica, Logger: n.Logger})
	if err != nil {
		return err
	}
	n.onClose(func() error {
		if n.left > 0 {
			n.member.Vanish() // the others must not end commands as lost if this server is soon back
		}
		return n.member.Close()
	})
	return nil
}

// openKeys opens the API keys. Where everybody is let in there are none.
func openKeys(ctx context.Context, n *Node) (err error) {
	if n.verifier == nil {
		return nil
	}
	from, opts := apikey.In(n.dir.Path, n.log)
	opts.Logger = n.Logger
	if n.keys, err = apikey.Open(ctx, from, opts); err != nil {
		return err
	}
	n.onClose(func() error { n.keys.Close(); return nil })
	n.quotas.keys.Store(n.keys)
	return nil
}

// openAudit begins to record who does what.
func openAudit(ctx context.Context, n *Node) (err error) {
	if !n.Audit {
		return nil
	}
	n.audit, err = audit.Open(ctx, n.log, n.cursors.Derive("reprise audit 1"), &audit.Options{Logger: n.Logger})
	if err != nil {
		return err
	}
	n.onClose(func() error { n.audit.Close(); return nil })
	return nil
}

// openLogins opens what knows which logins have ended: in the store where replicas share it.
func openLogins(ctx context.Context, n *Node) (err error) {
	if n.keys == nil {
		return nil
	}
	from := journal.File(filepath.Join(n.dir.Path, datadir.LoginsFile))
	if n.log.Shared() {
		from = logins.Stream(n.log)
	}
	if n.logins, err = logins.Open(ctx, from); err != nil {
		return err
	}
	n.onClose(func() error { n.logins.Close(); return nil })
	return nil
}

// openGate opens what identifies the senders of requests.
func openGate(_ context.Context, n *Node) error {
	verifier, access := n.verifier, identity.Options{}
	if n.logins != nil {
		access.Logins = n.logins
	}
	if n.keys != nil {
		verifier, access.Certificates = identity.Verifiers{verifier, n.keys}, n.keys
	}
	if n.issuers != nil && verifier != nil {
		verifier = notingVerifier{n.issuers.Before(verifier), &n.quotas.bearers}
	}
	n.gate = identity.NewGate(n.cursors, verifier, &access)
	n.quotas.gate.Store(n.gate)
	return nil
}

// lives says how long principals may have tasks and sessions, or is nil where there are no API keys.
func (n *Node) lives() func(reprise.Tenant, string) context.Context {
	if n.keys == nil {
		return nil
	}
	return n.keys.Life
}

// proofToken is the token that the server proves to know, "" for none.
func (n *Node) proofToken() string {
	text, err := os.ReadFile(filepath.Join(n.Secrets, datadir.TokenFile))
	if err != nil {
		return "" // of a server that lets everybody in
	}
	token := strings.TrimSpace(string(text))
	if len(token) < serverproof.MinToken {
		n.Logger.Warn("the token is short enough to be guessed from a proof: the server proves nothing to clients of this machine",
			"advice", fmt.Sprintf("put %d characters or more into %s, or remove the file for a new token",
				serverproof.MinToken, datadir.TokenFile))
		return ""
	}
	return token
}

// recordMCP records a call of a tool.
func (n *Node) recordMCP(ctx context.Context, e audit.Entry, change bool) error {
	switch {
	case n.audit == nil:
		return nil
	case e.Result != "":
		n.audit.Refuse(e)
		return nil
	case change:
		return n.audit.Record(ctx, e)
	}
	n.audit.Note(e)
	return nil
}
