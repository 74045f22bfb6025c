package redisstore

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"reprise"
)

// The fields of a state. Numbers are decimal.
//
//	e  epoch and owner, see life      k  bytes that the kept events take
//	c  configuration, see config      x  the end, see end; absent while there is none
//	b  when it was created            z  when it expires, in ms
//	n  number in the lists            p  producers, see marshalProducers
//	s  start of the window            h  id of the server's history at the last append
//	t  tail                           r  id of the server's process then
//	l  lineage, see marshalLineage; absent while the stream has had one epoch
//	m  when the mark expires, in ms; then there are no other fields
//
// An entry of the batches has the fields h ("<count of events> <checksum>") and b (the bytes), in this order.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of the seqs of a batch and of its bytes.
func checksum(first uint64, count int, bytes []byte) uint32 {
	var head [16]byte
	binary.BigEndian.PutUint64(head[:], first)
	binary.BigEndian.PutUint64(head[8:], uint64(count))
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, bytes)
}

// life encodes an epoch and its owner as "<epoch> <name> <fence>".
func life(epoch reprise.Epoch, owner reprise.Owner) string {
	return string(epoch) + " " + owner.Name + " " + decimal(owner.Fence)
}

// parseLife is the inverse of life.
func parseLife(text string) (epoch reprise.Epoch, owner reprise.Owner, err error) {
	parts := strings.Split(text, " ")
	if len(parts) != 3 {
		return "", owner, errors.New("not an epoch and an owner")
	}
	owner.Name = parts[1]
	owner.Fence, err = strconv.ParseUint(parts[2], 10, 64)
	return reprise.Epoch(parts[0]), owner, err
}

// config is the JSON form of a reprise.StreamConfig. Equal configurations have equal text.
type config struct {
	MaxEvents int64             `json:"max_events,omitempty"`
	MaxBytes  int64             `json:"max_bytes,omitempty"`
	MaxAge    time.Duration     `json:"max_age_ns,omitempty"`
	Labels    map[string][]byte `json:"labels,omitempty"` // keys are hexadecimal: they need not be UTF-8
	Meta      []byte            `json:"meta,omitempty"`
}

func marshalConfig(c reprise.StreamConfig) (string, error) {
	labels := make(map[string][]byte, len(c.Labels))
	for k, v := range c.Labels {
		labels[hex.EncodeToString([]byte(k))] = []byte(v)
	}
	text, err := json.Marshal(config{c.Retention.MaxEvents, c.Retention.MaxBytes, c.Retention.MaxAge, labels, c.Meta})
	return string(text), err
}

func unmarshalConfig(text string) (reprise.StreamConfig, error) {
	var c config
	if text == "{}" { // the text of most streams
		return reprise.StreamConfig{}, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return reprise.StreamConfig{}, err
	}
	out := reprise.StreamConfig{
		Retention: reprise.Retention{MaxEvents: c.MaxEvents, MaxBytes: c.MaxBytes, MaxAge: c.MaxAge},
		Meta:      c.Meta,
	}
	if len(c.Labels) > 0 {
		out.Labels = make(map[string]string, len(c.Labels))
	}
	for k, v := range c.Labels {
		key, err := hex.DecodeString(k)
		if err != nil {
			return out, err
		}
		out.Labels[string(key)] = string(v)
	}
	return out, nil
}

// end is the JSON form of a reprise.End.
type end struct {
	Outcome []byte    `json:"outcome"` // need not be UTF-8
	Time    time.Time `json:"time"`
	Expires time.Time `json:"expires"`
	Data    []byte    `json:"data,omitempty"`
}

func marshalEnd(e *reprise.End) (string, error) {
	if e == nil {
		return "", nil
	}
	text, err := json.Marshal(end{[]byte(e.Outcome), e.Time.UTC(), e.Expires.UTC(), e.Data})
	return string(text), err
}

func unmarshalEnd(text string) (*reprise.End, error) {
	var e end
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return nil, err
	}
	return &reprise.End{Outcome: string(e.Outcome), Time: e.Time, Expires: e.Expires, Data: e.Data}, nil
}

// millis formats t in ms since 1970, rounded up, as scripts compare it.
func millis(t time.Time) string { return strconv.FormatInt(ceilMillis(t), 10) }

func ceilMillis(t time.Time) int64 { return max(0, t.Add(time.Millisecond-1).UnixMilli()) }

// marshalProducers writes each producer as "<length of id>:<id><epoch> <seq> <first> <last>;", the oldest first.
func marshalProducers(list []reprise.Producer) string {
	var b []byte
	for _, p := range list {
		b = append(strconv.AppendInt(b, int64(len(p.ID)), 10), ':')
		b = append(b, p.ID...)
		for i, n := range [...]uint64{p.Epoch, p.Seq, p.First, p.Last} {
			if i > 0 {
				b = append(b, ' ')
			}
			b = strconv.AppendUint(b, n, 10)
		}
		b = append(b, ';')
	}
	return string(b)
}

var errProducers = errors.New("not a list of producers")

func unmarshalProducers(text string) (list []reprise.Producer, err error) {
	for text != "" {
		length, rest, _ := strings.Cut(text, ":")
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(rest) {
			return nil, errProducers
		}
		p := reprise.Producer{ID: rest[:n]}
		var numbers string
		numbers, text, _ = strings.Cut(rest[n:], ";")
		fields := strings.Split(numbers, " ")
		into := [...]*uint64{&p.Epoch, &p.Seq, &p.First, &p.Last}
		if len(fields) != len(into) {
			return nil, errProducers
		}
		for i, f := range fields {
			if *into[i], err = strconv.ParseUint(f, 10, 64); err != nil {
				return nil, err
			}
		}
		list = append(list, p)
	}
	return list, nil
}

// marshalLineage writes "<epoch>;", the epoch whose lineage it is, and "<epoch> <fork>;" for each ancestor, the oldest
// first.
func marshalLineage(of reprise.Epoch, list []reprise.Ancestor) string {
	text := string(of) + ";"
	for _, a := range list {
		text += string(a.Epoch) + " " + decimal(a.Fork) + ";"
	}
	return text
}

var errLineage = errors.New("not a lineage")

func unmarshalLineage(text string) (of reprise.Epoch, list []reprise.Ancestor, err error) {
	first, text, ok := strings.Cut(text, ";")
	if !ok {
		return "", nil, errLineage
	}
	for text != "" {
		var one string
		if one, text, ok = strings.Cut(text, ";"); !ok {
			return "", nil, errLineage
		}
		epoch, fork, _ := strings.Cut(one, " ")
		n, err := strconv.ParseUint(fork, 10, 64)
		if err != nil {
			return "", nil, err
		}
		list = append(list, reprise.Ancestor{Epoch: reprise.Epoch(epoch), Fork: n})
	}
	return reprise.Epoch(first), list, nil
}

// state is the state of a stream in Redis.
type state struct {
	info    reprise.StreamInfo
	history string        // of the server at the last append
	heir    reprise.Epoch // the epoch whose lineage is in info
	number  uint64        // number of the stream in the lists
	expires int64         // in ms, 0 before the end
	marked  bool          // only a mark is left
}

// parseState parses field names and values in the order of HGETALL. No fields mean that there is no stream.
func parseState(key reprise.StreamKey, fields []string) (st state, err error) {
	st.info.Key = key
	var field string
	for i := 0; i+1 < len(fields) && err == nil; i += 2 {
		if field = fields[i]; len(field) == 1 {
			err = st.set(field[0], fields[i+1])
		}
	}
	if err != nil {
		return st, fmt.Errorf("%w: stream %s: field %q: %w", ErrDamaged, key, field, err)
	}
	if st.heir != st.info.Epoch { // an older program, which does not know lineages, changed the epoch
		st.info.Lineage = nil
	}
	return st, nil
}

func (st *state) set(field byte, value string) (err error) {
	info := &st.info
	switch field {
	case 'e':
		info.Epoch, info.Owner, err = parseLife(value)
	case 'c':
		info.Config, err = unmarshalConfig(value)
	case 'b':
		info.Created, err = time.Parse(time.RFC3339Nano, value)
	case 'n':
		st.number, err = strconv.ParseUint(value, 10, 64)
	case 's':
		info.Earliest, err = strconv.ParseUint(value, 10, 64)
	case 't':
		info.Tail, err = strconv.ParseUint(value, 10, 64)
	case 'k':
		info.Bytes, err = strconv.ParseInt(value, 10, 64)
	case 'x':
		info.End, err = unmarshalEnd(value)
	case 'z':
		st.expires, err = strconv.ParseInt(value, 10, 64)
	case 'p':
		info.Producers, err = unmarshalProducers(value)
	case 'h':
		st.history = value
	case 'l':
		st.heir, info.Lineage, err = unmarshalLineage(value)
	case 'v':
		info.Revision, err = strconv.ParseUint(value, 10, 64)
	case 'm':
		st.marked = true
	}
	return err
}

// absent reports whether there is no stream. There may be a mark.
func (st *state) absent() bool { return st.info.Epoch == "" }

// listFields are the fields of a state that List needs; sizeFields are those that Sizes needs.
var (
	listFields = []string{"e", "c", "b", "n", "s", "t", "k", "x", "z", "l", "v"}
	sizeFields = []string{"e", "n", "s", "t", "k", "z"}
)
