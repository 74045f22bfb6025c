package archive

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"reprise"
)

// header is the description of the stream in a file, as JSON. Bytes are in base64; labels too, since they need not be
// text.
type header struct {
	Tenant    reprise.Tenant `json:"tenant"`
	Name      string         `json:"name"`
	Epoch     reprise.Epoch  `json:"epoch"`
	Created   moment         `json:"created"`
	Earliest  uint64         `json:"earliest"`
	Tail      uint64         `json:"tail"`
	Bytes     int64          `json:"bytes"`
	MaxEvents int64          `json:"max_events,omitempty"`
	MaxBytes  int64          `json:"max_bytes,omitempty"`
	MaxAge    time.Duration  `json:"max_age_ns,omitempty"`
	Labels    []label        `json:"labels,omitempty"`
	Meta      []byte         `json:"meta,omitempty"`
	Owner     string         `json:"owner,omitempty"`
	Fence     uint64         `json:"fence,omitempty"`
	End       headerEnd      `json:"end"`
	Producers []producer     `json:"producers,omitempty"`
	Lineage   []ancestor     `json:"lineage,omitempty"`
	// First is the first event of the first batch: it may lie before Earliest.
	First uint64 `json:"first"`
}

type label struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

type headerEnd struct {
	Outcome string `json:"outcome"`
	Time    moment `json:"time"`
	Expires moment `json:"expires"`
	Data    []byte `json:"data,omitempty"`
}

type ancestor struct {
	Epoch reprise.Epoch `json:"epoch"`
	Fork  uint64        `json:"fork"`
}

type producer struct {
	ID    []byte `json:"id"`
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// MarshalInfo encodes the description of an ended stream as the JSON that precedes its batches. first is the first
// event of the first batch. The header of a file has the same form; see docs/internals/archive.md.
func MarshalInfo(info reprise.StreamInfo, first uint64) ([]byte, error) {
	if info.End == nil {
		return nil, errOpen
	}
	return json.Marshal(newHeader(&info, first))
}

// UnmarshalInfo is the inverse of MarshalInfo. The error wraps ErrDamaged.
func UnmarshalInfo(text []byte) (info reprise.StreamInfo, first uint64, err error) {
	h, err := parseHeader(text)
	if err != nil {
		return info, 0, err
	}
	return h.info(), h.First, nil
}

// errOpen refuses a stream that others may still append to.
var errOpen = fmt.Errorf("%w: a stream that has not ended cannot be archived", reprise.ErrInvalid)

// newHeader describes a stream that has ended.
func newHeader(info *reprise.StreamInfo, first uint64) header {
	r := info.Config.Retention
	h := header{
		Tenant: info.Key.Tenant, Name: info.Key.Name, Epoch: info.Epoch, Created: moment(info.Created),
		Earliest: info.Earliest, Tail: info.Tail, Bytes: info.Bytes,
		MaxEvents: r.MaxEvents, MaxBytes: r.MaxBytes, MaxAge: r.MaxAge, Meta: info.Config.Meta,
		Owner: info.Owner.Name, Fence: info.Owner.Fence, First: first,
		End: headerEnd{info.End.Outcome, moment(info.End.Time), moment(info.End.Expires), info.End.Data},
	}
	for _, k := range slices.Sorted(maps.Keys(info.Config.Labels)) {
		h.Labels = append(h.Labels, label{[]byte(k), []byte(info.Config.Labels[k])})
	}
	for _, p := range info.Producers {
		h.Producers = append(h.Producers, producer{[]byte(p.ID), p.Epoch, p.Seq, p.First, p.Last})
	}
	for _, a := range info.Lineage {
		h.Lineage = append(h.Lineage, ancestor(a))
	}
	return h
}

// info is the inverse of newHeader.
func (h *header) info() reprise.StreamInfo {
	info := reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: h.Tenant, Name: h.Name}, Epoch: h.Epoch,
		Config: reprise.StreamConfig{
			Retention: reprise.Retention{MaxEvents: h.MaxEvents, MaxBytes: h.MaxBytes, MaxAge: h.MaxAge}, Meta: h.Meta,
		},
		Created: time.Time(h.Created), Owner: reprise.Owner{Name: h.Owner, Fence: h.Fence},
		Earliest: h.Earliest, Tail: h.Tail, Bytes: h.Bytes,
		End: &reprise.End{
			Outcome: h.End.Outcome, Time: time.Time(h.End.Time), Expires: time.Time(h.End.Expires),
			Data: h.End.Data,
		},
	}
	if len(h.Labels) > 0 {
		info.Config.Labels = make(map[string]string, len(h.Labels))
	}
	for _, l := range h.Labels {
		info.Config.Labels[string(l.Key)] = string(l.Value)
	}
	for _, p := range h.Producers {
		info.Producers = append(info.Producers,
			reprise.Producer{ID: string(p.ID), Epoch: p.Epoch, Seq: p.Seq, First: p.First, Last: p.Last})
	}
	for _, a := range h.Lineage {
		info.Lineage = append(info.Lineage, reprise.Ancestor(a))
	}
	return info
}

// parseHeader reads the JSON of a header and checks that it can be true.
func parseHeader(text []byte) (header, error) {
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return h, fmt.Errorf("%w: header: %v", ErrDamaged, err)
	}
	key := reprise.StreamKey{Tenant: h.Tenant, Name: h.Name}
	empty := h.Earliest == h.Tail+1
	switch {
	case key.Validate() != nil:
		return h, fmt.Errorf("%w: header: invalid stream name %q", ErrDamaged, key.String())
	case h.Tail == 1<<64-1, h.Earliest < 1, h.Earliest > h.Tail+1,
		h.First < 1, h.First > h.Earliest, empty && h.First != h.Earliest:
		return h, fmt.Errorf("%w: header: events %d (from %d) to %d", ErrDamaged, h.Earliest, h.First, h.Tail)
	}
	return h, nil
}

// moment is a time as seconds since 1970 with nine digits behind the point: any time there
// is, which the form of RFC 3339 does not hold beyond the year 9999.
type moment time.Time

// MarshalText writes it.
func (m moment) MarshalText() ([]byte, error) {
	t := time.Time(m)
	return fmt.Appendf(nil, "%d.%09d", t.Unix(), t.Nanosecond()), nil
}

// UnmarshalText reads it.
func (m *moment) UnmarshalText(text []byte) error {
	whole, part, ok := strings.Cut(string(text), ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanos, errPart := strconv.ParseUint(part, 10, 30)
	if !ok || err != nil || errPart != nil || len(part) != 9 {
		return fmt.Errorf("%q is no time", text)
	}
	*m = moment(time.Unix(seconds, int64(nanos)).UTC())
	return nil
}
