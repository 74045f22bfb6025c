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

// Tenant names whose data it is, for example "default". It is 1 to 64 bytes
// of letters, digits, '.', '_' and '-'.
type Tenant string

// DefaultTenant owns the streams of a program that knows no tenants.
const DefaultTenant Tenant = "default"

// SystemTenant owns the streams by which replicas know each other and a Log tries its store. The bounds of the
// process do not hold for it, since nothing would work without them; those of its streams do.
const SystemTenant Tenant = "reprise.system"

// StreamKey names a stream.
type StreamKey struct {
	Tenant Tenant
	// Name is 1 to 255 bytes of letters, digits, '.', '_', '-' and '/', with no
	// empty, "." or ".." segment, for example "builds/linux.amd64". A program
	// that keeps several kinds of streams puts a namespace in front, which ends
	// with a colon: "execution:".
	Name string
}

func (k StreamKey) String() string { return string(k.Tenant) + "/" + k.Name }

// Namespace is the name up to and with its colon, or "" where it has none.
func (k StreamKey) Namespace() string {
	return k.Name[:strings.IndexByte(k.Name, ':')+1]
}

const (
	maxNameBytes   = 255
	maxTenantBytes = 64
)

// Validate reports whether k may name a stream. The error wraps ErrInvalid.
func (k StreamKey) Validate() error {
	if len(k.Tenant) == 0 || len(k.Tenant) > maxTenantBytes {
		return fmt.Errorf("%w: a tenant is 1 to %d bytes long", ErrInvalid, maxTenantBytes)
	}
	for i := range len(k.Tenant) {
		if !isNameByte(k.Tenant[i]) {
			return fmt.Errorf("%w: tenant %q holds %q", ErrInvalid, k.Tenant, k.Tenant[i])
		}
	}
	if len(k.Name) == 0 || len(k.Name) > maxNameBytes {
		return fmt.Errorf("%w: a stream name is 1 to %d bytes long", ErrInvalid, maxNameBytes)
	}
	namespace := k.Namespace()
	for i := range len(namespace) - 1 {
		if !isNameByte(namespace[i]) {
			return fmt.Errorf("%w: stream name %q holds %q", ErrInvalid, k.Name, namespace[i])
		}
	}
	for segment := range strings.SplitSeq(k.Name[len(namespace):], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: stream name %q has the segment %q", ErrInvalid, k.Name, segment)
		}
		for i := range len(segment) {
			if !isNameByte(segment[i]) {
				return fmt.Errorf("%w: stream name %q holds %q", ErrInvalid, k.Name, segment[i])
			}
		}
	}
	return nil
}

// Retention bounds the history of one stream. All bounds hold together; a zero
// field stands for the default of the Log.
type Retention struct {
	// MaxEvents is how many events are kept at most.
	MaxEvents int64
	// MaxBytes is how many bytes are kept at most, counted as they are handed
	// to the store: data, type and about ten bytes an event. The newest batch
	// is always kept.
	MaxBytes int64
	// MaxAge is how long a stream is kept after its end.
	MaxAge time.Duration
}

// DefaultRetention is what streams are kept by where nothing else is said.
var DefaultRetention = Retention{MaxEvents: 10_000, MaxBytes: 64 << 20, MaxAge: time.Hour}

// or fills the zero fields of r from d.
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

// StreamConfig is what a stream is created with. It never changes.
type StreamConfig struct {
	Retention Retention
	// Labels are for finding streams: at most 64 of them, keys of 1 to 64
	// bytes, values of at most 256.
	Labels map[string]string
	// Meta is at most 64 KiB of the creator's own.
	Meta []byte
}

// Equal reports whether two configurations are the same.
func (c StreamConfig) Equal(o StreamConfig) bool {
	return c.Retention == o.Retention && maps.Equal(c.Labels, o.Labels) && bytes.Equal(c.Meta, o.Meta)
}

// AccountLabel is the label of a stream that names who in its tenant it is charged to; see Options.Quota. Creating a
// stream again under another account finds the stream, which stays charged to the first.
const AccountLabel = "reprise.account"

// Account is the value of AccountLabel, "" for a stream that is charged to its tenant alone.
func (c StreamConfig) Account() string { return c.Labels[AccountLabel] }

// EqualButAccount is Equal for configurations that may differ in their AccountLabel.
func (c StreamConfig) EqualButAccount(o StreamConfig) bool {
	return c.Retention == o.Retention && bytes.Equal(c.Meta, o.Meta) &&
		maps.Equal(withoutAccount(c.Labels), withoutAccount(o.Labels))
}

func withoutAccount(labels map[string]string) map[string]string {
	if _, ok := labels[AccountLabel]; ok {
		labels = maps.Clone(labels)
		delete(labels, AccountLabel)
	}
	return labels
}

// Quota bounds what a tenant keeps, or an account within it. 0 is no bound, and less is no room at all.
type Quota struct{ Streams, Bytes int64 }

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
	if len(c.Meta) > maxMetaBytes {
		return fmt.Errorf("%w: meta of %d bytes, at most %d are taken", ErrInvalid, len(c.Meta), maxMetaBytes)
	}
	return nil
}

// End says that and how a stream has ended.
type End struct {
	// Outcome is the stated reason, for example "completed" or "exited".
	Outcome string
	// Time is that of the end event.
	Time time.Time
	// Expires is when the stream may be swept.
	Expires time.Time
	// Data is the data of the end event.
	Data []byte
}

// Owner is a writer that has a stream to itself, such as the replica that runs
// an execution. Of two owners the one with the higher Fence is the newer, and what the
// older appends is refused with ErrFenced. The zero Owner is that of a stream to which
// anybody may append.
type Owner struct {
	// Name says who it is, for example "replica-k3v9": 1 to 64 bytes of letters, digits, '.', '_' and '-'.
	Name string
	// Fence is 1 for the owner that a stream is created with and one more for
	// each that takes it over.
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
	for i := range len(o.Name) {
		if !isNameByte(o.Name[i]) {
			return fmt.Errorf("%w: owner %q holds %q", ErrInvalid, o.Name, o.Name[i])
		}
	}
	return nil
}

// StreamInfo is the state of a stream in one consistent view.
type StreamInfo struct {
	Key     StreamKey
	Epoch   Epoch
	Config  StreamConfig
	Created time.Time
	// Owner is who may append, the zero Owner if anybody may.
	Owner Owner
	// Earliest is the seq of the first kept event and Tail that of the last one
	// ever appended, 0 if there was none. Where nothing is kept Earliest is Tail+1.
	Earliest, Tail uint64
	// Bytes is what the kept events take; see Retention.MaxBytes.
	Bytes int64
	// End is nil while the stream has not ended.
	End *End
	// Producers are the newest appends of idempotent producers, at most
	// MaxProducers of them, oldest first.
	Producers []Producer
	// Lineage is the epochs that the stream was in before, oldest first, at most MaxLineage of
	// them. It grows when a Store finds that it may have lost events.
	Lineage []Ancestor
}

// Ancestor is an epoch that a stream was in.
type Ancestor struct {
	Epoch Epoch
	// Fork is the seq up to which the epoch after it shares its history.
	Fork uint64
}

// MaxLineage is how many ancestors a stream remembers.
const MaxLineage = 32

// ForkOf returns the seq up to which the stream shares the history of an epoch: that of the current epoch to the
// tail, that of an ancestor to the lowest fork since. ok is false for an epoch that is not known.
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

// Renew puts the stream into a new epoch that shares all of its history up to the tail, as a Store does that
// may have lost events after it.
func (i *StreamInfo) Renew(epoch Epoch) {
	lineage := append(slices.Clip(i.Lineage), Ancestor{Epoch: i.Epoch, Fork: i.Tail})
	i.Lineage = lineage[max(0, len(lineage)-MaxLineage):]
	i.Epoch = epoch
}

// Kept is the number of events in the window.
func (i *StreamInfo) Kept() uint64 { return i.Tail + 1 - i.Earliest }

// StreamOverhead is what quotas count for a stream beside its events, name, labels and Meta, in bytes: its place in the
// indexes of a Store and the like.
const StreamOverhead = 256

// Overhead is what the stream takes of its tenant's bytes beside those of its events.
func (i *StreamInfo) Overhead() int64 {
	n := StreamOverhead + len(i.Key.Name) + len(i.Config.Meta)
	for name, value := range i.Config.Labels {
		n += len(name) + len(value)
	}
	return int64(n)
}

// Options are the settings of a Log. The zero value of each field means its default.
type Options struct {
	// Keys authenticate cursors. Default: a random key, so that cursors are
	// good for as long as the process lives.
	Keys *Keys
	// Retention is for streams that state none. Default: DefaultRetention.
	Retention Retention
	// MaxTenantBytes bounds what all streams of one tenant keep, MaxTotalBytes
	// what all streams keep; see Retention.MaxBytes for what is counted. When a bound
	// is reached, a stream that is appended to gives up its own oldest
	// events, and where that is not enough the append fails with ErrQuota: no
	// stream costs another its events. Defaults: no bound, 16 GiB.
	MaxTenantBytes, MaxTotalBytes int64
	// Quota bounds what a tenant keeps and, where account is not "", what is charged to one of its accounts: see
	// AccountLabel. It is asked at each append, so it must be quick, and must not call the Log. In place of a tenant's
	// bound on bytes, MaxTenantBytes holds where it says 0. Default: no bounds.
	Quota func(tenant Tenant, account string) Quota
	// MaxEventBytes bounds the data of an event, inclusive. Default: 1 MiB.
	MaxEventBytes int
	// TailBytes is how many bytes of the newest events of a stream are kept
	// in memory for its readers, TailTotalBytes how many of all streams; the newest
	// few are always kept while a stream is in use. What is made of them for
	// the wire comes on top, up to twice as much. Defaults: 1 MiB, 256 MiB.
	TailBytes      int
	TailTotalBytes int64
	// MaxStreams is how many unused streams are held in memory.
	// Default: 65,536.
	MaxStreams int
	// MaxReaders bounds the readers of one stream. Default: 10,000.
	MaxReaders int
	// SweepEvery is the time between sweeps. Default: 5 minutes; negative: never.
	SweepEvery time.Duration
	// Remember is for how long a swept stream is answered with ErrExpired.
	// Default: 24 hours.
	Remember time.Duration
	// Logger receives the errors of background goroutines. Default: silent.
	Logger *slog.Logger
	// Hooks are called as things happen.
	Hooks *Hooks
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Keys == nil {
		d.Keys = NewKeys()
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
