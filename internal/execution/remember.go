package execution

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/memo"
)

// A name that was used is remembered, so that a start does not run twice because its output has expired meanwhile.
// Before the end event of an execution is appended, a record of about 200 bytes is appended to two streams of the
// system tenant: to the bucket of the name, in which it is looked up, and to the journal of the tenant, from which it
// is listed. So whatever removes an ended stream later, and however a server dies, the record is there.
//
// A start first looks for a record of its name, and once more after it has created the stream: an execution that ended
// and was removed in between has left its record before. Removing an execution appends a record that frees the name.

// ranNamespace begins the names of the streams of records: "ran:t-<tenant>/<bucket>" and "ran:t-<tenant>/all".
const ranNamespace = "ran:"

// The types of the events in these streams. A forgot frees the name.
const (
	eventRan    = "ran"
	eventForgot = "forgot"
)

// names are the names of executions that are remembered.
type names struct {
	*memo.Book
	age time.Duration
}

// openNames returns the names of the executions in log. Clients do not know the secret of opts, so they cannot choose
// names of one bucket.
func openNames(log *reprise.Log, opts *Options) *names {
	return &names{age: opts.Remember, Book: memo.New(log, memo.Options{
		Namespace: ranNamespace, Age: opts.Remember, Records: opts.RememberNames,
		Hash: func(tenant reprise.Tenant, name string) uint16 {
			return binary.BigEndian.Uint16(mac(opts.Secret, "reprise execution ran 1", []byte(tenant), []byte(name)))
		},
		Early: "names of executions are forgotten before their time, and could run again: there are too many; " +
			"raise --remember-names",
		Logger: opts.Logger,
	})}
}

// record is what is remembered of an execution. The data of its event is the name, a line feed, and this as JSON.
type record struct {
	name string
	// ID is the id of the execution if the name is a key.
	ID string `json:"id,omitempty"`
	// Key is the name of the stream of its key.
	Key string `json:"y,omitempty"`
	// Life is the beginning of the epoch of its stream.
	Life     string  `json:"l,omitempty"`
	Digest   string  `json:"d,omitempty"`
	Session  string  `json:"s,omitempty"`
	Outcome  Outcome `json:"o,omitempty"`
	ExitCode *int    `json:"x,omitempty"`
	Signal   *string `json:"g,omitempty"`
	// Times in Unix milliseconds. Kept is when the output expires if it is not removed before.
	Created int64 `json:"c,omitempty"`
	Started int64 `json:"b,omitempty"`
	Ended   int64 `json:"e,omitempty"`
	Kept    int64 `json:"k,omitempty"`
}

func (r *record) event() reprise.Event {
	return memo.Record(eventRan, time.UnixMilli(r.Ended), r.name, mustMarshal(r))
}

// parseRecord reads the record in an event. ok is false for one of a later version.
func parseRecord(e *reprise.Event) (r record, ok bool) {
	name, data := memo.Parse(e)
	if e.Type != eventRan || json.Unmarshal(data, &r) != nil {
		return record{}, false
	}
	r.name = name
	return r, true
}

// execution returns what is shown of an execution whose output has expired.
func (r *record) execution() Execution {
	x := Execution{Execution: client.Execution{
		ID: r.ID, Session: r.Session, Status: StatusEnded, Outcome: r.Outcome, ExitCode: r.ExitCode, Signal: r.Signal,
		Labels: map[string]string{}, Created: Time{Time: time.UnixMilli(r.Created)}, Ended: timeOf(r.Ended),
		Started: timeOf(r.Started), Expired: true,
	}}
	if id, ok := strings.CutPrefix(r.name, Namespace); ok {
		x.ID = id
	}
	if r.Kept > 0 && r.Kept <= time.Now().UnixMilli() {
		x.ExpiredAt = timeOf(r.Kept)
	}
	if r.Started > 0 {
		took := r.Ended - r.Started
		x.DurationMS = &took
	}
	return x
}

func timeOf(ms int64) (t Time) {
	if ms != 0 {
		t.Time = time.UnixMilli(ms)
	}
	return t
}

// digestOf returns the digest of the request in the configuration of an execution or a key, shortened.
func digestOf(config *reprise.StreamConfig) string {
	var m struct{ Digest string }
	_ = json.Unmarshal(config.Meta, &m) // we wrote it
	return m.Digest[:min(len(m.Digest), 22)] + config.Labels[labelDriver]
}

// journal names the stream in which the records of a tenant are listed.
func (n *names) journal(tenant reprise.Tenant) reprise.StreamKey { return n.Stream(tenant, "all") }

// remembers reports whether names are remembered at all.
func (n *names) remembers() bool { return n.age > 0 }

// recall is the state of a search for the record of a name.
type recall struct {
	key    reprise.StreamKey
	found  *record
	search *memo.Search // nil before the first
}

// named returns the search for the name of a request, nil if it has none of its own. An id that stands for a Key is
// new.
func named(key reprise.StreamKey, req *Request) *recall {
	if req.ID == "" && req.IdempotencyKey == "" || req.Key != "" {
		return nil
	}
	return &recall{key: key}
}

// recall looks for the newest record of a name.
func (n *names) recall(ctx context.Context, q *recall) error {
	if !n.remembers() {
		return nil
	}
	if q.search == nil {
		q.search = n.Search(q.key.Tenant, q.key.Name)
	}
	events, err := q.search.Records(ctx)
	if err != nil {
		return err
	}
	q.found = nil
	for i := range events {
		r, ok := parseRecord(&events[i])
		switch {
		case !ok:
			q.found = nil // forgotten
		case q.found == nil || q.found.Life != r.Life: // else the end was tried again, and the first one counts
			q.found = &r
		}
	}
	return nil
}

// recorded answers a start whose execution has ended and is no longer kept. done is false if there is no such
// execution: the start may create one, or finds the one that is kept.
func (h *Host) recorded(ctx context.Context, q *recall, config *reprise.StreamConfig) (
	x Execution, done bool, err error,
) {
	if err := h.names.recall(ctx, q); err != nil || q.found == nil {
		return Execution{}, false, err
	}
	if s, _, err := lookUp(ctx, h.log, q.key); s != nil || err != nil {
		return Execution{}, false, err
	}
	x, err = q.answer(config)
	return x, err == nil, err
}

// answer is the answer to a start for which a record was found.
func (q *recall) answer(config *reprise.StreamConfig) (Execution, error) {
	if digestOf(config) != q.found.Digest {
		return Execution{}, fmt.Errorf("%w: the name was used by another request, whose output has expired",
			reprise.ErrConflict)
	}
	return q.found.execution(), nil
}

// recordedError is the answer to a start that has created a stream although its name is remembered.
type recordedError struct{ execution Execution }

func (*recordedError) Error() string { return "it has run, and its output has expired" }

// checkCreated removes the stream of a name that has just been created although there is a record of the name: its
// execution ended and was removed after recorded had looked for it. The error is a *recordedError then.
func (h *Host) checkCreated(ctx context.Context, s *reprise.Stream, q *recall, config *reprise.StreamConfig) error {
	err := h.names.recall(ctx, q)
	if err == nil && q.found == nil {
		return nil
	}
	if err := s.Remove(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	x, err := q.answer(config)
	if err == nil {
		err = &recordedError{x}
	}
	return err
}

// started is the answer to a start that has created or found the stream s, or has failed. An execution that has expired
// since it was found is answered by its record.
func (h *Host) started(ctx context.Context, s *reprise.Stream, created bool, failed error, q *recall,
	config *reprise.StreamConfig,
) (x Execution, _ bool, err error) {
	if err = failed; err == nil {
		x, err = h.show(ctx, s)
	}
	if q != nil && !created && (isOver(err) || err == nil && x.Status != StatusEnded) {
		if recallErr := h.names.recall(ctx, q); recallErr != nil {
			return Execution{}, false, recallErr
		}
		// A stream of another life is one that another start has created although the name is remembered, and is about
		// to remove; see checkCreated.
		if q.found != nil && (err != nil || q.found.Life != lifeOf(s.Cursor(0).Epoch)) {
			x, err = q.answer(config)
		}
	}
	return orRecorded(x, created, err)
}

// lifeOf is the beginning of an epoch, which tells apart executions that had the same name.
func lifeOf(epoch reprise.Epoch) string { return string(epoch[:min(len(epoch), 8)]) }

// orRecorded turns the error of a start into its answer, if it is one.
func orRecorded(x Execution, created bool, err error) (Execution, bool, error) {
	if r, ok := errors.AsType[*recordedError](err); ok {
		return r.execution, false, nil
	}
	return x, created, err
}

// showExpired is Show for an execution that is no longer kept. The error is why if it is not remembered.
func (h *Host) showExpired(ctx context.Context, tenant reprise.Tenant, id string, why error) (Execution, error) {
	if !errors.Is(why, reprise.ErrNotFound) && !errors.Is(why, reprise.ErrExpired) || checkID("id", id) != nil {
		return Execution{}, why
	}
	q := recall{key: keyOf(tenant, id)}
	if err := h.names.recall(ctx, &q); err != nil {
		return Execution{}, err
	}
	if q.found == nil {
		return Execution{}, why
	}
	return q.found.execution(), nil
}

// remember writes the record of an execution that is about to end at a time, and the record of its key if it has
// succeeded. After an error it can be repeated.
func (h *Host) remember(ctx context.Context, info *reprise.StreamInfo, e *ending, at time.Time) error {
	if !h.names.remembers() {
		return nil
	}
	r := record{
		name: info.Key.Name, Life: lifeOf(info.Epoch),
		Digest: digestOf(&info.Config), Session: info.Config.Labels[labelSession],
		Outcome: e.Outcome, ExitCode: e.ExitCode, Signal: e.Signal,
		Created: info.Created.UnixMilli(), Ended: at.UnixMilli(),
		Kept: at.Add(h.log.Retention(info.Config).MaxAge).UnixMilli(),
	}
	if !e.Started.IsZero() {
		r.Started = e.Started.UnixMilli()
	}
	list := []record{r}
	if name := keyIn(&info.Config); name != "" && e.Outcome == Exited && e.ExitCode != nil && *e.ExitCode == 0 {
		list[0].Key = h.streamOfKey(info.Key.Tenant, name).Name
		r.ID, r.name = strings.TrimPrefix(r.name, Namespace), list[0].Key
		list = append(list, r)
	}
	return h.names.note(ctx, info.Key.Tenant, list)
}

// rememberEnd is remember for a run, which waits while the store is unavailable. Other errors do not keep the run from
// ending. It returns false if the next server has to end the run.
func (r *Run) rememberEnd(e *ending, at time.Time) bool {
	info := reprise.StreamInfo{Key: r.key, Config: r.config, Created: r.created, Epoch: r.Epoch()}
	var err error
	_ = retries.Repeat(r.host.ctx, func() bool {
		err = r.host.remember(r.host.ctx, &info, e, at)
		return !errors.Is(err, reprise.ErrUnavailable)
	})
	if err != nil && (r.remote != nil || r.outer != nil) && r.host.ctx.Err() != nil {
		return false
	}
	if err != nil {
		r.Logger().Error("the name of an execution cannot be remembered", "error", err)
	}
	return true
}

// forgetName frees the name of an execution that a client removes, and its key.
func (h *Host) forgetName(ctx context.Context, key reprise.StreamKey) error {
	q := recall{key: key}
	if err := h.names.recall(ctx, &q); err != nil || q.found == nil {
		return err
	}
	if q.found.Key != "" {
		of := recall{key: reprise.StreamKey{Tenant: key.Tenant, Name: q.found.Key}}
		err := h.names.recall(ctx, &of)
		if err == nil && of.found != nil && Namespace+of.found.ID == key.Name {
			err = h.names.forget(ctx, of.key)
		}
		if err != nil {
			return err
		}
	}
	return h.names.forget(ctx, key)
}

func (n *names) forget(ctx context.Context, key reprise.StreamKey) error {
	return n.Add(ctx, key.Tenant, memo.Record(eventForgot, time.Time{}, key.Name, nil))
}

// note adds records to the names and, if they belong to executions, to the journal.
func (n *names) note(ctx context.Context, tenant reprise.Tenant, list []record) error {
	var writing sync.WaitGroup
	errs := make([]error, 2*len(list))
	for i := range list {
		e := list[i].event()
		writing.Go(func() { errs[2*i] = n.Add(ctx, tenant, e) })
		if list[i].ID == "" {
			writing.Go(func() { errs[2*i+1] = n.AddTo(ctx, n.journal(tenant), e) })
		}
	}
	writing.Wait()
	return errors.Join(errs...)
}
