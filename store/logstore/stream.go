package logstore

import (
	"math"
	"time"

	"reprise"
)

// stream is a stream, or the mark of a removed one, that does not rest; see streams. Equal configurations and names of
// tenants are shared, and what few streams have is in rare.
type stream struct {
	id     uint64
	tenant *tenant
	names  string                // the name, followed by the epoch
	config *reprise.StreamConfig // nil for the zero value; it is never changed
	end    *reprise.End          // of a mark, Expires is when it ends; never changed
	rare   *rare                 // nil if all of it is zero
	runs   runs

	earliest, tail uint64
	bytes          int64

	seconds int64 // of the creation, since 1970; with nanos
	nanos   uint32

	group uint32 // number of the newest group that changes the stream
	saved uint32 // number of the newest snapshot that has the stream or does not need it
	name  uint16 // the length of the name
	mark  bool

	trimmed bool // it is in state.trimmed
	still   bool // unchanged since a snapshot has saved it
}

// rare are fields of a reprise.StreamInfo.
type rare struct {
	revision  uint64
	owner     reprise.Owner
	producers []reprise.Producer
	lineage   []reprise.Ancestor
}

// tenant is what the streams of a tenant have in common.
type tenant struct {
	name reprise.Tenant
	size reprise.Size
	held int // streams and marks
}

// shared are the values that streams share.
type shared struct {
	tenants map[reprise.Tenant]*tenant
	configs [8]*reprise.StreamConfig // the newest ones
	oldest  int                      // of configs
}

// maxName is the length of the longest name that a stream can have.
const maxName = math.MaxUint16

// stream returns a stream with a state.
func (s *shared) stream(id uint64, info *reprise.StreamInfo) *stream {
	st := &stream{
		id: id, tenant: s.tenant(info.Key.Tenant), names: info.Key.Name + string(info.Epoch),
		name: uint16(len(info.Key.Name)), config: s.config(&info.Config), end: info.End,
		earliest: info.Earliest, tail: info.Tail, bytes: info.Bytes,
		seconds: info.Created.Unix(), nanos: uint32(info.Created.Nanosecond()),
	}
	r := rare{info.Revision, info.Owner, info.Producers, info.Lineage}
	if r.revision > 0 || r.owner != (reprise.Owner{}) || len(r.producers) > 0 || len(r.lineage) > 0 {
		st.rare = &r
	}
	return st
}

// marked returns a mark.
func (s *shared) marked(id uint64, key reprise.StreamKey, until time.Time) *stream {
	st := s.stream(id, &reprise.StreamInfo{Key: key, End: &reprise.End{Expires: until}})
	st.mark = true
	return st
}

func (s *shared) tenant(name reprise.Tenant) *tenant {
	t := s.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		s.tenants[name] = t
	}
	return t
}

// config returns a configuration that equals c, or nil for the zero value.
func (s *shared) config(c *reprise.StreamConfig) *reprise.StreamConfig {
	if c.Equal(reprise.StreamConfig{}) {
		return nil
	}
	for _, known := range s.configs {
		if known != nil && known.Equal(*c) {
			return known
		}
	}
	own := *c
	s.configs[s.oldest] = &own
	s.oldest = (s.oldest + 1) % len(s.configs)
	return &own
}

func (st *stream) key() reprise.StreamKey {
	return reprise.StreamKey{Tenant: st.tenant.name, Name: st.names[:st.name]}
}

func (st *stream) epoch() reprise.Epoch { return reprise.Epoch(st.names[st.name:]) }

// info returns the state of st, which is no mark.
func (st *stream) info() reprise.StreamInfo {
	info := reprise.StreamInfo{
		Key: st.key(), Epoch: st.epoch(), Created: time.Unix(st.seconds, int64(st.nanos)).UTC(),
		Earliest: st.earliest, Tail: st.tail, Bytes: st.bytes, End: st.end,
	}
	if st.config != nil {
		info.Config = *st.config
	}
	if r := st.rare; r != nil {
		info.Revision, info.Owner, info.Producers, info.Lineage = r.revision, r.owner, r.producers, r.lineage
	}
	return info
}

// kept returns the number of events in the window.
func (st *stream) kept() int64 { return int64(st.tail + 1 - st.earliest) }

func (st *stream) overhead() int64 {
	info := reprise.StreamInfo{Key: st.key()}
	if st.config != nil {
		info.Config = *st.config
	}
	return info.Overhead()
}

// extra returns the rare fields, to be changed.
func (st *stream) extra() *rare {
	if st.rare == nil {
		st.rare = new(rare)
	}
	return st.rare
}

// renew moves st to another epoch.
func (st *stream) renew(epoch reprise.Epoch) {
	info := st.info()
	info.Renew(epoch)
	st.names = info.Key.Name + string(epoch)
	st.extra().lineage = info.Lineage
}
