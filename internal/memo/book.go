// Package memo keeps records of what was done under a name, for a limited time, so that a request that is repeated
// finds what it did before and does not do it again.
//
// A record is an event in a stream of the system tenant: one of 1,024 buckets of each tenant, chosen by a hash of the
// name. To find a name, its bucket is read. So records are as durable as other events, and replicas share them.
package memo

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"reprise"
)

const (
	// buckets is the number of buckets of a tenant. It cannot be changed, since names would not be found any more.
	buckets = 1024
	// tidyEvery is the number of records after which those at the beginning of a stream are looked at.
	tidyEvery = 64
	// tellEvery is the minimum time between two log lines about records that were forgotten before their time.
	tellEvery = time.Hour
)

// unbounded is the retention of the streams of records. Records are removed by tidy.
var unbounded = reprise.Retention{MaxEvents: math.MaxInt64 / 2, MaxBytes: math.MaxInt64 / 2}

// Options are the settings of a Book. All but Logger are required.
type Options struct {
	// Namespace begins the names of the streams: "<namespace>t-<tenant>/<bucket>".
	Namespace string
	// Age is how long a record counts after the time of its event.
	Age time.Duration
	// Records is the maximum number of records for each tenant. The oldest are forgotten first.
	Records int64
	// Hash returns the hash of a name, of which a bucket is made. Whoever can compute it can choose names that share a
	// bucket, whose records are then forgotten early.
	Hash func(tenant reprise.Tenant, name string) uint16
	// Early is the text of the warning that records are forgotten before their time.
	Early string
	// Logger is given that warning, at most once an hour, and failures to remove old records. Default: silent.
	Logger *slog.Logger
}

// Book keeps records. It is safe for concurrent use.
type Book struct {
	log  *reprise.Log
	opts Options

	mu   sync.Mutex
	told time.Time // when opts.Early was last logged
}

// New returns a Book of the records in log.
func New(log *reprise.Log, opts Options) *Book {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Book{log: log, opts: opts}
}

// Stream names a stream of records of a tenant: part is a bucket, or what the caller calls a list of its own.
func (b *Book) Stream(tenant reprise.Tenant, part string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.SystemTenant, Name: b.opts.Namespace + "t-" + string(tenant) + "/" + part}
}

func (b *Book) bucket(tenant reprise.Tenant, name string) reprise.StreamKey {
	return b.Stream(tenant, strconv.Itoa(int(b.opts.Hash(tenant, name))%buckets))
}

// perBucket is the maximum number of records in a bucket. Names are spread over the buckets by chance, so it is larger
// than an equal share by four standard deviations.
func (b *Book) perBucket() int64 {
	share := float64(b.opts.Records) / buckets
	return int64(math.Ceil(share + 4*math.Sqrt(share)))
}

// Record returns the event that is the record of a name, which has no line feed.
func Record(eventType string, at time.Time, name string, data []byte) reprise.Event {
	return reprise.Event{Type: eventType, Time: at, Data: append([]byte(name+"\n"), data...)}
}

// Parse returns the name and the data of a record.
func Parse(e *reprise.Event) (name string, data []byte) {
	before, after, _ := bytes.Cut(e.Data, []byte{'\n'})
	return string(before), after
}

// IsPast reports whether a record counts no longer.
func (b *Book) IsPast(e *reprise.Event) bool { return time.Since(e.Time) >= b.opts.Age }

// Add keeps the record of a name, to be found by Search.
func (b *Book) Add(ctx context.Context, tenant reprise.Tenant, e reprise.Event) error {
	name, _ := Parse(&e)
	return b.keep(ctx, b.bucket(tenant, name), e, b.perBucket())
}

// AddTo keeps a record in a list of the caller, of at most Options.Records. See Stream.
func (b *Book) AddTo(ctx context.Context, list reprise.StreamKey, e reprise.Event) error {
	return b.keep(ctx, list, e, b.opts.Records)
}

func (b *Book) keep(ctx context.Context, key reprise.StreamKey, e reprise.Event, most int64) error {
	s, err := b.append(ctx, key, e)
	if err == nil {
		b.tidy(ctx, s, most)
	}
	return err
}

// append appends to a stream of records, which is created with the event if there is none.
func (b *Book) append(ctx context.Context, key reprise.StreamKey, e reprise.Event) (*reprise.Stream, error) {
	config := reprise.StreamConfig{Retention: unbounded}
	s, err := b.log.Stream(ctx, key)
	if isOver(err) {
		var created bool
		s, created, err = b.log.CreateWith(ctx, reprise.CreateOptions{Events: []reprise.Event{e}}, key, config)
		if errors.Is(err, errors.ErrUnsupported) {
			s, _, err = b.log.Create(ctx, key, config)
		}
		if created && err == nil {
			return s, nil
		}
	}
	if err == nil {
		_, err = s.Append(ctx, e)
	}
	return s, err
}

// isOver reports whether err means that there is no such stream, or no longer.
func isOver(err error) bool {
	return errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) || errors.Is(err, reprise.ErrEnded)
}

// tidy removes records at the beginning of a stream: those whose time is past, and those above a bound. It does nothing
// most times, so that its cost is spread. What fails is done the next time.
func (b *Book) tidy(ctx context.Context, s *reprise.Stream, most int64) {
	info, err := s.Info(ctx)
	over := int64(info.Kept()) - most
	if err != nil || over <= 0 && info.Tail%tidyEvery != 0 {
		return
	}
	from := info.Earliest
	if over > 0 {
		from += uint64(over + min(most/16, tidyEvery))
		b.tellEarly(ctx, s, from-1)
	}
	for past := true; past && from < info.Tail; {
		step := from + tidyEvery - 1
		err := Each(ctx, s, from, min(step, info.Tail-1), func(e *reprise.Event) {
			if past = past && b.IsPast(e); past {
				from = e.Seq + 1
			}
		})
		past = past && err == nil && from > step
	}
	if from > info.Earliest {
		if err := s.Trim(ctx, from); err != nil && !isOver(err) {
			b.opts.Logger.Info("old records could not be removed", "stream", s.Key().Name, "error", err)
		}
	}
}

// tellEarly warns if the record with a seq is about to be forgotten before its time.
func (b *Book) tellEarly(ctx context.Context, s *reprise.Stream, seq uint64) {
	early := false
	err := Each(ctx, s, seq, seq, func(e *reprise.Event) { early = !b.IsPast(e) })
	if err != nil || !early {
		return
	}
	b.mu.Lock()
	due := b.told.IsZero() || time.Since(b.told) >= tellEvery
	if due {
		b.told = time.Now()
	}
	b.mu.Unlock()
	if due {
		b.opts.Logger.Warn(b.opts.Early, "stream", s.Key().Name, "age", b.opts.Age, "records", b.opts.Records)
	}
}
