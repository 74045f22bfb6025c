package upkeep

import (
	"context"
	"math"
	"time"

	"reprise"
)

// Advice says how fast a store fills, and what the bounds of its streams keep of that.
//
// The rates are of the streams that are kept, in a period in which no stream can have been swept away: the
// shortest age bound of them, at most a day, and no more than the age of the oldest stream. A stream is taken to have
// grown evenly since it was made.
type Advice struct {
	// PeriodSeconds is the period that the rates are of. Where it is short, they say little.
	PeriodSeconds float64 `json:"period_seconds"`
	// EventsPerDay and BytesPerDay are what is appended. Bytes, here and below, are those that quotas count, with
	// the overhead of streams.
	EventsPerDay int64 `json:"events_per_day"`
	BytesPerDay  int64 `json:"bytes_per_day"`
	// Streams are all that are kept, Open the ones that have not ended, and OpenBytes what the bounds of these
	// keep: no bound on age removes it.
	Streams   int64 `json:"streams"`
	Open      int64 `json:"open"`
	OpenBytes int64 `json:"open_bytes"`
	// AtEvents and AtBytes count the streams that are at their own bound on events or bytes, and have given up their
	// oldest events for it.
	AtEvents int64 `json:"at_events"`
	AtBytes  int64 `json:"at_bytes"`
	// GivenUp is the number of events that streams have given up, for whatever bound.
	GivenUp int64 `json:"given_up"`
	// KeptBytes is what counts for MaxBytes, the bound on all streams; 0 for no bound.
	KeptBytes int64 `json:"kept_bytes"`
	MaxBytes  int64 `json:"max_bytes"`
	// AgeBytes is what the bounds on age keep of streams that have ended, once as much comes as goes.
	AgeBytes int64 `json:"age_bytes"`
	// FullInDays is when MaxBytes is reached at this rate; absent if AgeBytes and OpenBytes leave room.
	FullInDays *float64 `json:"full_in_days,omitempty"`
}

// eventOverhead is what Retention.MaxBytes counts for each event in addition to its encoded bytes.
const eventOverhead = 48

// day is the longest period.
const day = 24 * time.Hour

// Advise lists all streams of log and returns what there is to know at a time. kept is what they keep.
func Advise(ctx context.Context, log *reprise.Log, kept map[reprise.Tenant]TenantSize, now time.Time) (*Advice, error) {
	a := &Advice{MaxBytes: log.Usage().MaxBytes}
	for _, size := range kept {
		a.KeptBytes += size.Bytes + size.Overhead
	}
	var streams []growth
	for q := (reprise.ListQuery{AllNamespaces: true, Limit: 1000}); ; {
		page, err := log.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Streams {
			streams = append(streams, a.look(log, &page.Streams[i], now))
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	a.rate(streams, now)
	return a, nil
}

// growth is how a stream has grown.
type growth struct {
	created, ended time.Time // ended is now for a stream that is open
	age            time.Duration
	open           bool
	events, bytes  float64 // that were appended
	wanted         float64 // bytes that its own bounds keep
}

// look counts a stream.
func (a *Advice) look(log *reprise.Log, info *reprise.StreamInfo, now time.Time) growth {
	retention := log.Retention(info.Config)
	g := growth{created: info.Created, ended: now, age: retention.MaxAge, open: info.End == nil}
	kept, each := info.Kept(), 0.0
	if kept > 0 {
		each = float64(info.Bytes) / float64(kept)
	}
	g.events = float64(info.Tail)
	g.bytes = g.events*each + float64(info.Overhead())
	g.wanted = min(g.events, float64(retention.MaxEvents)) * each
	g.wanted = min(g.wanted, float64(retention.MaxBytes)*each/(each+eventOverhead)) + float64(info.Overhead())
	a.Streams++
	if g.open {
		a.Open++
		a.OpenBytes += whole(g.wanted)
	} else {
		g.ended = info.End.Time
	}
	a.GivenUp += int64(info.Earliest - 1)
	switch {
	case info.Earliest == 1:
	case kept >= uint64(retention.MaxEvents):
		a.AtEvents++
	case info.Bytes+eventOverhead*int64(kept) > retention.MaxBytes/2:
		a.AtBytes++
	}
	return g
}

// rate fills in the rates, and what follows of them.
func (a *Advice) rate(streams []growth, now time.Time) {
	period, oldest := day, now
	for _, g := range streams {
		period = min(period, g.age)
		if g.created.Before(oldest) {
			oldest = g.created
		}
	}
	if period = min(period, now.Sub(oldest)); period <= 0 {
		return
	}
	a.PeriodSeconds = period.Seconds()
	perDay := float64(day) / float64(period)
	var events, bytes, byAge float64
	for _, g := range streams {
		part := g.within(now.Add(-period), now)
		events += g.events * part * perDay
		bytes += g.bytes * part * perDay
		if !g.open {
			byAge += g.wanted * part * perDay * float64(g.age) / float64(day)
		}
	}
	a.EventsPerDay, a.BytesPerDay, a.AgeBytes = whole(events), whole(bytes), whole(byAge)
	if a.MaxBytes > 0 && bytes > 0 && a.AgeBytes+a.OpenBytes > a.MaxBytes {
		days := max(0, float64(a.MaxBytes-a.KeptBytes)/bytes)
		a.FullInDays = &days
	}
}

// within returns the part of its life that a stream had between two times.
func (g *growth) within(from, to time.Time) float64 {
	life := g.ended.Sub(g.created)
	if life <= 0 {
		if g.created.Before(from) || g.created.After(to) {
			return 0
		}
		return 1
	}
	if g.created.After(from) {
		from = g.created
	}
	if g.ended.Before(to) {
		to = g.ended
	}
	return max(0, float64(to.Sub(from))/float64(life))
}

func whole(f float64) int64 { return int64(math.Round(f)) }
