package pgstore

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"reprise"
)

// nanos returns t in nanoseconds since 1970, or the nearest representable value: a retention may reach beyond the year
// 2262, which time.UnixNano would turn into the past.
func nanos(t time.Time) int64 {
	const most = math.MaxInt64 / int64(time.Second)
	switch s := t.Unix(); {
	case s >= most:
		return math.MaxInt64
	case s <= -most:
		return math.MinInt64
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time { return time.Unix(0, n).UTC() }

// bigint returns n as the database stores it, or the highest bigint.
func bigint(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func int8Of(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func int4Of(b []byte) int32 {
	if len(b) != 4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func boolOf(b []byte) bool { return len(b) == 1 && b[0] != 0 }

// streamFields is the number of columns of the table streams.
const streamFields = 19

// fields splits a row of the table streams, in composite form, into its columns. The row is the number of columns,
// followed by type, length and value of each. Number, type and length take 4 bytes each. NULL has the length -1.
func fields(b []byte) (f [streamFields][]byte, err error) {
	if len(b) < 4 || binary.BigEndian.Uint32(b) != streamFields {
		return f, fmt.Errorf("%w: a row of the table streams has other columns", ErrNotOurs)
	}
	b = b[4:]
	for i := range f {
		if len(b) < 8 {
			return f, errDamagedRow
		}
		n := int(int32(binary.BigEndian.Uint32(b[4:])))
		b = b[8:]
		if n < 0 {
			continue
		}
		if n > len(b) {
			return f, errDamagedRow
		}
		f[i], b = b[:n:n], b[n:]
	}
	return f, nil
}

var errDamagedRow = fmt.Errorf("%w: a row of the table streams", ErrDamaged)

// streamInfo decodes a row of the table streams. It retains nothing of b.
func streamInfo(b []byte) (id int64, info reprise.StreamInfo, err error) {
	f, err := fields(b)
	if err != nil {
		return 0, info, err
	}
	info.Earliest, info.Tail = uint64(int8Of(f[1])), uint64(int8Of(f[2]))
	info.Bytes = int8Of(f[3])
	info.Owner = reprise.Owner{Name: string(f[11]), Fence: uint64(int8Of(f[4]))}
	info.Created = fromNanos(int8Of(f[5]))
	if len(f[12]) <= len(f[14]) {
		return 0, info, errDamagedRow
	}
	info.Key = reprise.StreamKey{Tenant: reprise.Tenant(f[14]), Name: string(f[12][len(f[14])+1:])}
	info.Epoch = reprise.Epoch(f[13])
	if info.Config, info.Revision, err = unmarshalConfig(f[16]); err != nil {
		return 0, info, err
	}
	if f[9] != nil {
		info.End = &reprise.End{
			Time: fromNanos(int8Of(f[9])), Expires: fromNanos(int8Of(f[10])),
			Outcome: string(f[17]), Data: append([]byte(nil), f[18]...),
		}
	}
	return int8Of(f[0]), info, nil
}

// producer is the form of a reprise.Producer that the SQL function producers_of returns.
type producer struct {
	ID    []byte `json:"id"`
	Epoch int64  `json:"epoch"`
	Seq   int64  `json:"seq"`
	First int64  `json:"first"`
	Last  int64  `json:"last"`
}

func producers(text []byte) ([]reprise.Producer, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var rows []producer
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("%w: producers: %w", ErrDamaged, err)
	}
	list := make([]reprise.Producer, len(rows))
	for i, p := range rows {
		list[i] = reprise.Producer{
			ID: string(p.ID), Epoch: uint64(p.Epoch), Seq: uint64(p.Seq), First: uint64(p.First), Last: uint64(p.Last),
		}
	}
	return list, nil
}

// streamWithLineage is streamInfo with the result of the SQL function lineage_of.
func streamWithLineage(row, text []byte) (id int64, info reprise.StreamInfo, err error) {
	if id, info, err = streamInfo(row); err == nil {
		info.Lineage, err = lineage(text)
	}
	return id, info, err
}

// ancestor is the form of a reprise.Ancestor that the SQL function lineage_of returns.
type ancestor struct {
	Epoch reprise.Epoch `json:"epoch"`
	Fork  int64         `json:"fork"`
}

func lineage(text []byte) ([]reprise.Ancestor, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var rows []ancestor
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("%w: lineage: %w", ErrDamaged, err)
	}
	list := make([]reprise.Ancestor, len(rows))
	for i, a := range rows {
		list[i] = reprise.Ancestor{Epoch: a.Epoch, Fork: uint64(a.Fork)}
	}
	return list, nil
}

// config is the form of a reprise.StreamConfig in its row.
type config struct {
	// Revision comes first: the SQL function append compares it with the mark of a request.
	Revision  uint64        `json:"revision,omitempty,string"`
	MaxEvents int64         `json:"max_events,omitempty"`
	MaxBytes  int64         `json:"max_bytes,omitempty"`
	MaxAge    time.Duration `json:"max_age_ns,omitempty"`
	// Labels has hexadecimal keys and values, because they need not be UTF-8.
	Labels map[string]string `json:"labels,omitempty"`
	Meta   []byte            `json:"meta,omitempty"`
}

// mark is how the configuration of a stream in the revision begins. A configuration in revision 0 does not begin with
// the mark of that one; see migration 3.
func mark(revision uint64) []byte {
	if revision == 0 {
		return []byte(`{"revision":"`)
	}
	return fmt.Appendf(nil, `{"revision":"%d"`, revision)
}

// marshalConfig returns the configuration of a stream and its revision.
func marshalConfig(info *reprise.StreamInfo) ([]byte, error) {
	c := &info.Config
	labels := make(map[string]string, len(c.Labels))
	for k, v := range c.Labels {
		labels[hex.EncodeToString([]byte(k))] = hex.EncodeToString([]byte(v))
	}
	r := c.Retention
	return json.Marshal(config{info.Revision, r.MaxEvents, r.MaxBytes, r.MaxAge, labels, c.Meta})
}

// unmarshalConfig is the inverse of marshalConfig.
func unmarshalConfig(text []byte) (out reprise.StreamConfig, revision uint64, err error) {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return out, 0, fmt.Errorf("%w: configuration of a stream: %w", ErrDamaged, err)
	}
	out.Retention = reprise.Retention{MaxEvents: c.MaxEvents, MaxBytes: c.MaxBytes, MaxAge: c.MaxAge}
	out.Meta = c.Meta
	if len(c.Labels) > 0 {
		out.Labels = make(map[string]string, len(c.Labels))
	}
	for k, v := range c.Labels {
		key, kerr := hex.DecodeString(k)
		value, verr := hex.DecodeString(v)
		if kerr != nil || verr != nil {
			return out, 0, fmt.Errorf("%w: labels of a stream", ErrDamaged)
		}
		out.Labels[string(key)] = string(value)
	}
	return out, c.Revision, nil
}
