package storewrap

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/wrap"
)

// AuditEntry is one change of a Store, or a refused change. It contains no data: no bytes of an event, no labels, no
// Meta.
type AuditEntry struct {
	// Time is when the change was answered.
	Time time.Time
	// Op is "create", "configure" (a change of the configuration), "append", "end" (an append with the end event),
	// "trim", "remove" or "sweep" (once for each stream that was swept).
	Op string
	// Who is the result of AuditOptions.Who.
	Who string
	// Key and Epoch name the stream. Key is zero for a failed sweep, and Epoch is "" if the caller named
	// none.
	Key   reprise.StreamKey
	Epoch reprise.Epoch
	// Owner is the writer or creator, if the stream has an owner.
	Owner reprise.Owner
	// First and Last are the seqs of the appended events. A trim has removed at least the events up to Last.
	First, Last uint64
	// Bytes is the size of the append at this place among the wrappers.
	Bytes int
	// Outcome is the outcome of the end.
	Outcome string
	// Result is "ok", "fenced" for reprise.ErrFenced, or the code that package problem has for the error, such as
	// "conflict". An append with "store_unavailable" may have been stored, or be stored later.
	Result string
}

// LogValue returns the entry as the attributes of a log line, without zero values.
func (e AuditEntry) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("op", e.Op), slog.String("result", e.Result)}
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	number := func(name string, value uint64) {
		if value != 0 {
			attrs = append(attrs, slog.Uint64(name, value))
		}
	}
	text("who", e.Who)
	text("tenant", string(e.Key.Tenant))
	text("stream", e.Key.Name)
	text("epoch", string(e.Epoch))
	text("owner", e.Owner.Name)
	number("fence", e.Owner.Fence)
	number("first", e.First)
	number("last", e.Last)
	number("bytes", uint64(e.Bytes))
	text("outcome", e.Outcome)
	return slog.GroupValue(attrs...)
}

// AuditTo returns a function that writes each entry as a line of logger, with the message "audit" and the entry as
// the group "audit": successful changes as Info, refused and failed ones as Warn.
func AuditTo(logger *slog.Logger) func(AuditEntry) {
	return func(e AuditEntry) {
		level := slog.LevelInfo
		if e.Result != auditOK {
			level = slog.LevelWarn
		}
		logger.LogAttrs(context.Background(), level, "audit", slog.Any("audit", e))
	}
}

// auditOK is the result of a successful change.
const auditOK = "ok"

// AuditOptions are the settings of Audit. The zero value of each field means its default.
type AuditOptions struct {
	// Who returns the name of the caller, from the context of the call. The context of an append is that of the
	// Log and not of a caller, because an append serves several callers at once. Default: no names.
	Who func(ctx context.Context) string
	// WithoutAppends omits successful appends that did not end their stream. Default: every batch is an entry.
	WithoutAppends bool
}

// audited is a Store whose changes are recorded. It is safe for concurrent use.
type audited struct {
	wrap.Around
	record func(AuditEntry)
	opts   AuditOptions
}

// Audit calls record for each change of inner, after the change was made or refused: which stream, which events, by
// whom, and with which result. Creating an existing stream changes nothing, and is not an entry. record is called in
// the goroutine that makes the change, so it must be quick and safe for concurrent use. opts may be nil.
//
// A change at the moment when the program is killed may be missing. Changes by other programs are not recorded.
func Audit(inner reprise.Store, record func(AuditEntry), opts *AuditOptions) reprise.Store {
	a := &audited{Around: wrap.Around{Inner: inner}, record: record}
	if opts != nil {
		a.opts = *opts
	}
	return a
}

// note records e with its result.
func (a *audited) note(ctx context.Context, e AuditEntry, err error) {
	e.Time, e.Result = time.Now(), auditOK
	switch {
	case errors.Is(err, reprise.ErrFenced):
		e.Result = "fenced"
	case err != nil:
		e.Result = string(problem.From(err).Code)
	}
	if a.opts.Who != nil {
		e.Who = a.opts.Who(ctx)
	}
	a.record(e)
}

// Create creates a stream; see reprise.Store.
func (a *audited) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	kept, err := a.Inner.Create(ctx, info)
	op := "create"
	if info.Revision > 0 {
		op = "configure"
	}
	if err != nil || kept.Epoch == info.Epoch {
		a.note(ctx, AuditEntry{Op: op, Key: info.Key, Epoch: info.Epoch, Owner: info.Owner}, err)
	}
	return kept, err
}

// CreateAppend creates a stream with its first batch; see reprise.CreateAppender. It is recorded as two changes.
func (a *audited) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	kept, err := a.Around.CreateAppend(ctx, info, first)
	if err == nil && kept.Epoch != info.Epoch || errors.Is(err, errors.ErrUnsupported) {
		return kept, err
	}
	a.note(ctx, AuditEntry{Op: "create", Key: info.Key, Epoch: info.Epoch, Owner: info.Owner}, err)
	a.noteAppends(ctx, []reprise.AppendRequest{first}, []error{err})
	return kept, err
}

// Append stores batches; see reprise.Store.
func (a *audited) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	errs := a.Inner.Append(ctx, reqs)
	a.noteAppends(ctx, reqs, errs)
	return errs
}

// noteAppends records the results of requests. errs is nil if all were stored.
func (a *audited) noteAppends(ctx context.Context, reqs []reprise.AppendRequest, errs []error) {
	for i := range reqs {
		req := &reqs[i]
		var err error
		if errs != nil {
			err = errs[i]
		}
		if a.opts.WithoutAppends && err == nil && req.End == nil {
			continue
		}
		e := AuditEntry{
			Op: "append", Key: req.Key, Epoch: req.Epoch, Owner: req.Owner,
			First: req.First, Last: req.First + uint64(req.Count) - 1, Bytes: len(req.Bytes),
		}
		if req.End != nil {
			e.Op, e.Outcome = "end", req.End.Outcome
		}
		a.note(ctx, e, err)
	}
}

// Remove trims or removes a stream; see reprise.Store.
func (a *audited) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	err := a.Inner.Remove(ctx, key, spec)
	e := AuditEntry{Op: removal(spec), Key: key, Epoch: spec.Epoch}
	if spec.Trim > 0 {
		e.Last = spec.Trim - 1
	}
	a.note(ctx, e, err)
	return err
}

// Sweep removes expired streams; see reprise.Sweeper.
func (a *audited) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	swept, err := a.Around.Sweep(ctx, now, remember, limit)
	for i := range swept {
		e := AuditEntry{
			Op: "sweep", Key: swept[i].Key, Epoch: swept[i].Epoch, Owner: swept[i].Owner,
			Last: swept[i].Tail,
		}
		if swept[i].End != nil {
			e.Outcome = swept[i].End.Outcome
		}
		a.note(ctx, e, nil)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		a.note(ctx, AuditEntry{Op: "sweep"}, err)
	}
	return swept, err
}

// removal returns the Op of a removal.
func removal(spec reprise.RemoveSpec) string {
	if spec.Trim != 0 {
		return "trim"
	}
	return "remove"
}
