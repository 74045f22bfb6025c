package reprise

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// Tenant names the owner of data, for example "default". It is 1 to 64 bytes
// of letters, digits, '.', '_' and '-'.
type Tenant string

// DefaultTenant owns the streams of a program without tenants.
const DefaultTenant Tenant = "default"

// SystemTenant owns the streams by which replicas find each other and a Log tests its store. The limits of the
// process do not apply to it, because nothing would work without these streams. The limits of the streams do apply.
const SystemTenant Tenant = "reprise.system"

// StreamKey names a stream.
type StreamKey struct {
	Tenant Tenant
	// Name is 1 to 255 bytes of letters, digits, '.', '_', '-' and '/', with no
	// empty, "." or ".." segment, for example "builds/linux.amd64". A program
	// that keeps several kinds of streams uses a namespace as a prefix, which ends
	// with a colon: "execution:".
	Name string
}

func (k StreamKey) String() string { return string(k.Tenant) + "/" + k.Name }

// Namespace returns the prefix of the name that ends with its colon, or "" if there is none.
func (k StreamKey) Namespace() string {
	return k.Name[:strings.IndexByte(k.Name, ':')+1]
}

const (
	maxNameBytes   = 255
	maxTenantBytes = 64
)

// Validate returns an error that wraps ErrInvalid if k cannot be the name of a stream.
func (k StreamKey) Validate() error {
	if len(k.Tenant) == 0 || len(k.Tenant) > maxTenantBytes {
		return fmt.Errorf("%w: a tenant is 1 to %d bytes long", ErrInvalid, maxTenantBytes)
	}
	if r, ok := foreignRune(k.Tenant); ok {
		return fmt.Errorf("%w: tenant %q holds %q", ErrInvalid, k.Tenant, r)
	}
	if len(k.Name) == 0 || len(k.Name) > maxNameBytes {
		return fmt.Errorf("%w: a stream name is 1 to %d bytes long", ErrInvalid, maxNameBytes)
	}
	namespace := k.Namespace()
	if r, ok := foreignRune(strings.TrimSuffix(namespace, ":")); ok {
		return fmt.Errorf("%w: stream name %q holds %q", ErrInvalid, k.Name, r)
	}
	for segment := range strings.SplitSeq(k.Name[len(namespace):], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: stream name %q has the segment %q", ErrInvalid, k.Name, segment)
		}
		if r, ok := foreignRune(segment); ok {
			return fmt.Errorf("%w: stream name %q holds %q", ErrInvalid, k.Name, r)
		}
	}
	return nil
}

// markerKey names the stream that holds the marker of a store's wrappers.
var markerKey = StreamKey{Tenant: SystemTenant, Name: "store:wrappers"}

// IsMarker reports whether k names the stream with the marker of a store's wrappers. It is not for users and is not
// copied from one store to another.
func (k StreamKey) IsMarker() bool { return k == markerKey }

// usable is Validate for users of a Log, from whom the marker is hidden.
func (k StreamKey) usable() error {
	if k.IsMarker() {
		return fmt.Errorf("%w: %s is the marker of the store", ErrInvalid, k)
	}
	return k.Validate()
}

// Retention limits the history of one stream. All limits apply together. A zero
// field stands for the default of the Log.
type Retention struct {
	// MaxEvents is the maximum number of kept events.
	MaxEvents int64
	// MaxBytes is the maximum number of kept bytes. An event counts as it is passed
	// to the store (data, type and about ten bytes), plus 48 bytes. So the bytes are
	// the bound, however small the events are. The newest batch is always kept.
	MaxBytes int64
	// MaxAge is how long a stream is kept after its end.
	MaxAge time.Duration
}

// eventOverhead is what Retention.MaxBytes counts for each event in addition to its encoded bytes. It stands for the
// entry of an event that was appended alone: in the memory of a Store, or its row and index.
const eventOverhead = 48

// DefaultRetention applies where no other retention is given.
var DefaultRetention = Retention{MaxEvents: 1_000_000, MaxBytes: 64 << 20, MaxAge: 24 * time.Hour}

// or returns r with its zero fields filled from d.
func (r Retention) or(d Retention) Retention {
	if r.MaxEvents == 0 {
		r.MaxEvents = d.MaxEvents
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = d.MaxBytes
	}
	if r.MaxAge == 0 {
		r.MaxAge = d.MaxAge
	}
	return r
}

func (r Retention) validate() error {
	if r.MaxEvents < 0 || r.MaxBytes < 0 || r.MaxAge < 0 {
		return fmt.Errorf("%w: a negative retention bound", ErrInvalid)
	}
	return nil
}

// StreamConfig is the configuration of a stream. It is set at creation; Stream.Configure changes the retention and the
// labels.
type StreamConfig struct {
	Retention Retention
	// Labels are for finding streams: at most 64 of them, keys of 1 to 64
	// bytes, values of at most 256.
	Labels map[string]string
	// Meta is at most 64 KiB of data of the creator.
	Meta []byte
}

// Equal reports whether two configurations are the same.
func (c StreamConfig) Equal(o StreamConfig) bool {
	return c.Retention == o.Retention && maps.Equal(c.Labels, o.Labels) && bytes.Equal(c.Meta, o.Meta)
}

// MaxIdleLabel is the label that bounds how long an open stream may be without appends: a positive duration such as
// "24h", in the format of time.ParseDuration. A sweep ends a stream that has been idle for longer, as Stream.End does,
// with the outcome "failed" and data whose code is "idle". After that the stream expires as any other.
//
// The time counts from the newest event or, if there is none, from the creation of the stream. In addition, the
// Log must have seen the stream unchanged for one minute, or for the bound if that is shorter, so events with a past
// Time do not end a stream that is used. A stream that has an Owner is never ended: its owner decides when.
//
// It is a label and not a member of Retention so that every Store keeps it, and older programs ignore it.
const MaxIdleLabel = "reprise.max_idle"

// MaxIdle returns the value of MaxIdleLabel, or 0 if there is none; see Options.MaxIdle.
func (c StreamConfig) MaxIdle() time.Duration { return c.durationLabel(MaxIdleLabel) }

// MaxAgeEachLabel is the label that bounds how old an event of an open stream may become: a positive duration as in
// MaxIdleLabel, and a label for the same reason. A sweep removes the events before the first one whose Time is young
// enough, as Stream.Trim does. After the end of the stream, Retention.MaxAge applies alone.
const MaxAgeEachLabel = "reprise.max_age_each"

// MaxAgeEach returns the value of MaxAgeEachLabel, or 0 if there is none.
func (c StreamConfig) MaxAgeEach() time.Duration { return c.durationLabel(MaxAgeEachLabel) }

// ExpiresLabel is the label that says when a stream is removed, whether it has ended or not: a time in the format of
// RFC 3339, which may have fractions of a second. A sweep removes the stream as Log.Remove does, once the time is past.
// Stream.Configure can move it. It is a label for the same reason as MaxIdleLabel.
const ExpiresLabel = "reprise.expires"

// Expires returns the value of ExpiresLabel, or the zero time if there is none.
func (c StreamConfig) Expires() time.Time {
	at, err := time.Parse(time.RFC3339Nano, c.Labels[ExpiresLabel])
	if err != nil {
		return time.Time{}
	}
	return at
}

const (
	maxLabels     = 64
	maxLabelKey   = 64
	maxLabelValue = 256
	maxMetaBytes  = 64 << 10
)

func (c StreamConfig) validate() error {
	if err := c.Retention.validate(); err != nil {
		return err
	}
	if len(c.Labels) > maxLabels {
		return fmt.Errorf("%w: %d labels, at most %d are taken", ErrInvalid, len(c.Labels), maxLabels)
	}
	for k, v := range c.Labels {
		if k == "" || len(k) > maxLabelKey || len(v) > maxLabelValue {
			return fmt.Errorf("%w: label %q: a key has 1 to %d bytes, a value at most %d", ErrInvalid, k, maxLabelKey,
				maxLabelValue)
		}
	}
	for _, label := range [...]string{MaxIdleLabel, MaxAgeEachLabel} {
		if text, ok := c.Labels[label]; ok && c.durationLabel(label) == 0 {
			return fmt.Errorf("%w: label %s is %q, a positive duration is taken", ErrInvalid, label, text)
		}
	}
	if text, ok := c.Labels[ExpiresLabel]; ok && c.Expires().IsZero() {
		return fmt.Errorf("%w: label %s is %q, a time as in RFC 3339 is taken", ErrInvalid, ExpiresLabel, text)
	}
	if len(c.Meta) > maxMetaBytes {
		return fmt.Errorf("%w: meta of %d bytes, at most %d are taken", ErrInvalid, len(c.Meta), maxMetaBytes)
	}
	return nil
}

// End describes how a stream has ended.
type End struct {
	// Outcome is the stated reason, for example "completed" or "exited".
	Outcome string
	// Time is the time of the end event.
	Time time.Time
	// Expires is when the stream may be swept.
	Expires time.Time
	// Data is the data of the end event.
	Data []byte
}

// Owner is the exclusive writer of a stream, such as the replica that runs an
// execution. Of two owners the one with the higher Fence is newer, and appends of the
// older one are refused with ErrFenced. The zero Owner belongs to a stream to which
// anybody may append.
type Owner struct {
	// Name identifies the owner, for example "replica-k3v9": 1 to 64 bytes of letters, digits, '.', '_' and '-'.
	Name string
	// Fence is 1 for the owner that a stream is created with, and increases by one with
	// each takeover.
	Fence uint64
}

// validate accepts the zero Owner. The error wraps ErrInvalid.
func (o Owner) validate() error {
	if o == (Owner{}) {
		return nil
	}
	if o.Name == "" || len(o.Name) > maxTenantBytes || o.Fence == 0 {
		return fmt.Errorf("%w: owner %q with fence %d: a name has 1 to %d bytes, a fence is at least 1", ErrInvalid,
			o.Name, o.Fence, maxTenantBytes)
	}
	if r, ok := foreignRune(o.Name); ok {
		return fmt.Errorf("%w: owner %q holds %q", ErrInvalid, o.Name, r)
	}
	return nil
}

// StreamInfo is the state of a stream in one consistent view.
type StreamInfo struct {
	Key    StreamKey
	Epoch  Epoch
	Config StreamConfig
	// Revision counts the changes of Config; it is 0 for a stream with the configuration that it was created with.
	Revision uint64
	Created  time.Time
	// Owner is the exclusive writer, or the zero Owner if anybody may append.
	Owner Owner
	// Earliest is the seq of the first kept event. Tail is the seq of the last event
	// ever appended, 0 if there was none. If no event is kept, Earliest is Tail+1.
	Earliest, Tail uint64
	// Bytes is the size of the kept events; see Retention.MaxBytes.
	Bytes int64
	// End is nil while the stream has not ended.
	End *End
	// Producers are the newest appends of idempotent producers, at most
	// MaxProducers of them, oldest first.
	Producers []Producer
	// Lineage lists the earlier epochs of the stream, oldest first, at most MaxLineage of
	// them. It grows when a Store detects that it may have lost events.
	Lineage []Ancestor
}

// Ancestor is an earlier epoch of a stream.
type Ancestor struct {
	Epoch Epoch
	// Fork is the last seq that the following epoch shares with this one.
	Fork uint64
}

// MaxLineage is the maximum number of ancestors that a stream remembers.
const MaxLineage = 32

// ForkOf returns the last seq of the history that the stream shares with an epoch. For the current epoch that is the
// tail; for an ancestor it is the lowest fork since. ok is false for an unknown epoch.
func (i *StreamInfo) ForkOf(epoch Epoch) (fork uint64, ok bool) {
	if epoch == i.Epoch {
		return i.Tail, true
	}
	fork = i.Tail
	for _, a := range slices.Backward(i.Lineage) {
		fork = min(fork, a.Fork)
		if a.Epoch == epoch {
			return fork, true
		}
	}
	return 0, false
}

// sharedWith returns the newest epoch that the streams of i and o have in common, and the last seq of the history that
// they share. A Store may lose the change to an epoch together with its events, so o may be in one that i does not
// know. ok is false if they have no epoch in common, and are different streams of one name.
func (i *StreamInfo) sharedWith(o *StreamInfo) (common Epoch, fork uint64, ok bool) {
	if fork, ok = i.ForkOf(o.Epoch); ok {
		return o.Epoch, fork, true
	}
	for _, a := range slices.Backward(o.Lineage) {
		if fork, ok = i.ForkOf(a.Epoch); ok {
			last, _ := o.ForkOf(a.Epoch)
			return a.Epoch, min(fork, last), true
		}
	}
	return "", 0, false
}

// Renew moves the stream to a new epoch that shares its whole history up to the tail. A Store calls it when it
// may have lost events after the tail.
func (i *StreamInfo) Renew(epoch Epoch) {
	lineage := append(slices.Clip(i.Lineage), Ancestor{Epoch: i.Epoch, Fork: i.Tail})
	i.Lineage = lineage[max(0, len(lineage)-MaxLineage):]
	i.Epoch = epoch
}

// Kept returns the number of events in the window.
func (i *StreamInfo) Kept() uint64 { return i.Tail + 1 - i.Earliest }

// StreamOverhead is what quotas count for each stream in addition to its events, name, labels and Meta, in bytes. It
// stands for the entries in the indexes of a Store.
const StreamOverhead = 256

// Overhead returns what the stream takes of its tenant's bytes in addition to its events.
func (i *StreamInfo) Overhead() int64 {
	n := StreamOverhead + len(i.Key.Name) + len(i.Config.Meta)
	for name, value := range i.Config.Labels {
		n += len(name) + len(value)
	}
	return int64(n)
}

// Options are the settings of a Log. The zero value of each field means its default.
type Options struct {
	// Keys authenticate cursors. Default: a random key; then cursors are
	// valid only within this process.
	Keys *Keyset
	// Retention is the default for streams. Default: DefaultRetention.
	Retention Retention
	// MaxIdle is how long an open stream may be without appends if it has no MaxIdleLabel. It does not apply to streams
	// in a namespace, nor to those that have an Owner. Default: for ever.
	MaxIdle time.Duration
	// MaxTenantBytes limits what all streams of one tenant keep, MaxTotalBytes
	// what all streams keep; see Retention.MaxBytes for what is counted. At a
	// limit, the ended streams of the same tenant are removed, those that ended first
	// before the others, as if they had expired. If that is not enough, the append fails with
	// ErrQuota. An open stream loses nothing to another one, and can always end with an
	// event of up to 64 KiB. Defaults: no limit, 16 GiB.
	MaxTenantBytes, MaxTotalBytes int64
	// Quota returns the limits of a tenant and, if account is not "", of one of its accounts; see AccountLabel. It is
	// called at each append, so it must be quick and must not call the Log. If it returns 0 for a tenant's bytes,
	// MaxTenantBytes applies. Default: no limits.
	Quota func(tenant Tenant, account string) Quota
	// MaxEventBytes is the maximum size of the data of an event. Default: 1 MiB.
	MaxEventBytes int
	// TailBytes is the number of bytes of the newest events of a stream that are kept
	// in memory for its readers, TailTotalBytes the same for all streams. The newest
	// few events are always kept while a stream is in use. Wire forms of these events
	// take up to twice as much in addition. Defaults: 1 MiB, 256 MiB.
	TailBytes      int
	TailTotalBytes int64
	// MaxStreams is the maximum number of unused streams in memory, and of open streams whose idleness is tracked; a
	// list of all streams finds the others. Default: 65,536.
	MaxStreams int
	// MaxReaders is the maximum number of readers of one stream. Default: 10,000.
	MaxReaders int
	// SweepEvery is the time between sweeps. Default: 5 minutes; negative: never.
	SweepEvery time.Duration
	// Remember is how long a swept stream returns ErrExpired.
	// Default: 24 hours.
	Remember time.Duration
	// Logger receives the errors of background goroutines. Default: silent.
	Logger *slog.Logger
	// Hooks are called on events such as commits and sweeps.
	Hooks *Hooks
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Keys == nil {
		d.Keys = NewKeyset()
	}
	d.Retention = d.Retention.or(DefaultRetention)
	d.MaxTotalBytes = cmp.Or(d.MaxTotalBytes, 16<<30)
	d.MaxEventBytes = cmp.Or(d.MaxEventBytes, 1<<20)
	d.TailBytes = cmp.Or(d.TailBytes, 1<<20)
	d.TailTotalBytes = cmp.Or(d.TailTotalBytes, 256<<20)
	d.MaxStreams = cmp.Or(d.MaxStreams, 1<<16)
	d.MaxReaders = cmp.Or(d.MaxReaders, 10_000)
	d.SweepEvery = cmp.Or(d.SweepEvery, 5*time.Minute)
	d.Remember = cmp.Or(d.Remember, 24*time.Hour)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Hooks == nil {
		d.Hooks = &Hooks{}
	}
	return d
}

// Hooks are functions that a Log calls on certain events, for metrics and traces.
// Any of them may be nil. They are called by the goroutine that does the work,
// so they must be quick, and they must not call the Log.
type Hooks struct {
	// Committed is called after each commit to the store.
	Committed func(CommitInfo)
	// ReaderOpened is called for each request for a reader. The error is
	// the reason of a refusal, or nil.
	ReaderOpened func(key StreamKey, err error)
	// ReaderClosed is called once for each reader that was opened.
	ReaderClosed func(key StreamKey)
	// Gap is called when a reader fell out of the window, with the number of
	// events that it missed.
	Gap func(key StreamKey, missed uint64)
	// StoreRead is called for each page that was read from the store because
	// the events were not in memory.
	StoreRead func(ReadInfo)
	// Swept is called after each sweep.
	Swept func(SweepResult, error)
	// RemovedEarly is called when an ended stream was removed before its time, to make room under a bound that several
	// streams share, with what it had kept.
	RemovedEarly func(key StreamKey, kept Size)
}

// CommitInfo describes one commit.
type CommitInfo struct {
	// Streams, Events and Bytes count the contents of the commit.
	Streams, Events, Bytes int
	// Duration is the time that the store took.
	Duration time.Duration
	// Waited is how long the first append of the group waited for its turn while other commits were in progress. It is
	// 0 for a lone append.
	Waited time.Duration
	// Failed is the number of streams whose batch was not stored. It does not include Overtaken, the number of streams
	// for which another replica was ahead; their batches are built again at once.
	Failed, Overtaken int
}

// ReadInfo describes one page that was read.
type ReadInfo struct {
	Events, Bytes int
	// Lag is the number of events between the position of the read and the tail, that is, how far behind the reader
	// was. It is 0 for a failed read.
	Lag      uint64
	Duration time.Duration
	Err      error
}

// AppendTrace describes how an append was committed, for traces. The append that it is passed to with
// [AppendOptions.Trace] fills it in before it returns. An AppendTrace must not be used by two appends at a time.
//
//	trace := new(reprise.AppendTrace)
//	_, err := stream.AppendWith(ctx, reprise.AppendOptions{Trace: trace}, event)
//	fmt.Println("waited", trace.Began.Sub(trace.Asked), "stored in", trace.Stored.Sub(trace.Began))
//
// An append without one costs a comparison with nil.
type AppendTrace struct {
	// Tries is the number of times that the append has asked its lane for a commit. It is more than 1 if the state of
	// the stream had to be read first, or another replica was ahead. The other fields describe the last try.
	Tries int
	// Asked is the time at which the append asked for its turn.
	Asked time.Time
	// Began is the time at which the commit of the append called the store, and Stored the time at which the store
	// returned, with or without an error. Both are zero for an append that was decided without the store: a duplicate,
	// or a refusal.
	Began, Stored time.Time
	// Streams, Events and Bytes count the contents of the commit.
	Streams, Events, Bytes int
}

// ask records that an append asks for its turn.
func (t *AppendTrace) ask() {
	if t != nil {
		*t = AppendTrace{Tries: t.Tries + 1, Asked: time.Now()}
	}
}
