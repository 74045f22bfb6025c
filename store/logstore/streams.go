package logstore

import (
	"hash/maphash"
	"iter"
	"maps"
	"math/bits"

	"reprise"
)

// streams are the streams and marks of a store, by key and by id. A stream that has ended, or has not changed for a
// while, rests: of it only the bytes are kept that a snapshot has of it, which are a fifth of a stream and nothing that
// the garbage collector has to follow. Reads decode them; whoever changes a stream wakes it first.
type streams struct {
	hash    func(tenant, name []byte) uint64
	ids     map[uint64]uint64            // by the hash of the key
	clashes map[reprise.StreamKey]uint64 // those whose hash another one had
	awake   map[uint64]*stream
	most    int // awake ones that there were since the map was made
	resting map[uint64]resting
	beds    map[uint32]*bed
	newest  uint32 // bed
}

// resting is where the bytes of a stream lie.
type resting struct{ bed, at uint32 }

// bed has the bytes of streams that rest, and of some that did.
type bed struct {
	bytes []byte
	used  int // of the bytes, for streams that still rest
}

// bedBytes is the size from which a bed takes no more streams.
const bedBytes = 64 << 10

func newStreams() streams {
	seed := maphash.MakeSeed()
	return streams{
		hash: func(tenant, name []byte) uint64 {
			return bits.RotateLeft64(maphash.Bytes(seed, tenant), 1) ^ maphash.Bytes(seed, name)
		},
		ids: map[uint64]uint64{}, clashes: map[reprise.StreamKey]uint64{},
		awake: map[uint64]*stream{}, resting: map[uint64]resting{}, beds: map[uint32]*bed{},
	}
}

func (m *streams) len() int { return len(m.awake) + len(m.resting) }

// idsOfAll returns the ids of all streams and marks.
func (m *streams) idsOfAll() []uint64 {
	ids := make([]uint64, 0, m.len())
	for id := range m.awake {
		ids = append(ids, id)
	}
	for id := range m.resting {
		ids = append(ids, id)
	}
	return ids
}

// find returns the id of the stream or mark with a key; it is 0 if there is none.
func (m *streams) find(key reprise.StreamKey) uint64 {
	var tenant, name [64]byte
	id := m.ids[m.hash(append(tenant[:0], key.Tenant...), append(name[:0], key.Name...))]
	if id != 0 && m.has(id, key) {
		return id
	}
	return m.clashes[key]
}

// has reports whether the stream with that id, which is there, has the key.
func (m *streams) has(id uint64, key reprise.StreamKey) bool {
	if st := m.awake[id]; st != nil {
		return st.key() == key
	}
	c := cutter{b: m.bytes(id)}
	tenant, name := c.key()
	return string(tenant) == string(key.Tenant) && string(name) == key.Name
}

func (m *streams) rests(id uint64) bool {
	_, ok := m.resting[id]
	return ok
}

// bytes returns the bytes of a stream that rests, and what lies behind them.
func (m *streams) bytes(id uint64) []byte {
	if at, ok := m.resting[id]; ok {
		return m.beds[at.bed].bytes[at.at:]
	}
	return nil
}

// peek returns a stream, to be read.
func (m *streams) peek(id uint64, tenants map[reprise.Tenant]*tenant) *stream {
	if st := m.awake[id]; st != nil {
		return st
	}
	return m.decode(id, &shared{tenants: tenants}) // its tenant is there
}

// decode returns a stream that rests, or nil.
func (m *streams) decode(id uint64, values *shared) *stream {
	c := cutter{b: m.bytes(id)}
	if c.b == nil {
		return nil
	}
	return c.stream(c.uint(), &snapshotHead{}, values)
}

// all yields all streams and marks as peek does.
func (m *streams) all(tenants map[reprise.Tenant]*tenant) iter.Seq[*stream] {
	return func(yield func(*stream) bool) {
		for _, st := range m.awake {
			if !yield(st) {
				return
			}
		}
		for id := range m.resting {
			if !yield(m.peek(id, tenants)) {
				return
			}
		}
	}
}

// takes reports whether a list takes a stream.
func (m *streams) takes(id uint64, q *reprise.ListQuery) bool {
	if c := (cutter{b: m.bytes(id)}); c.b != nil {
		s := c.skim()
		return s.takes(q)
	}
	st := m.awake[id]
	info := reprise.StreamInfo{End: st.end}
	if st.config != nil {
		info.Config = *st.config
	}
	return q.Takes(&info)
}

// put adds a stream that is awake, whose key is free.
func (m *streams) put(st *stream) {
	m.name(st.id, []byte(st.tenant.name), []byte(st.names[:st.name]))
	m.awake[st.id] = st
	m.most = max(m.most, len(m.awake))
}

// name makes a stream findable by its key.
func (m *streams) name(id uint64, tenant, name []byte) {
	if hash := m.hash(tenant, name); m.ids[hash] == 0 {
		m.ids[hash] = id
	} else {
		m.clashes[reprise.StreamKey{Tenant: reprise.Tenant(tenant), Name: string(name)}] = id
	}
}

// remove removes a stream that is awake.
func (m *streams) remove(st *stream) {
	delete(m.awake, st.id)
	if hash := m.hash([]byte(st.tenant.name), []byte(st.names[:st.name])); m.ids[hash] == st.id {
		delete(m.ids, hash)
	} else {
		delete(m.clashes, st.key())
	}
}

// wake returns a stream or mark, to be changed, or nil.
func (m *streams) wake(id uint64, values *shared) *stream {
	if st := m.awake[id]; st != nil {
		return st
	}
	st := m.decode(id, values)
	if st != nil {
		m.leave(id)
		m.awake[id] = st
		m.most = max(m.most, len(m.awake))
	}
	return st
}

// leave takes the bytes of a stream out of its bed.
func (m *streams) leave(id uint64) {
	at := m.resting[id]
	b := m.beds[at.bed]
	if b.used -= skimSize(b.bytes[at.at:]); b.used == 0 && at.bed != m.newest {
		delete(m.beds, at.bed)
	}
	delete(m.resting, id)
}

// rest puts a stream to rest. A snapshot has these bytes for it.
func (m *streams) rest(id uint64, bytes []byte) {
	delete(m.awake, id)
	b := m.beds[m.newest]
	if b == nil || len(b.bytes) >= bedBytes {
		b = &bed{bytes: make([]byte, 0, bedBytes+len(bytes))}
		m.use(b)
	}
	m.resting[id] = resting{m.newest, uint32(len(b.bytes))}
	b.bytes = append(b.bytes, bytes...)
	b.used += len(bytes)
}

// use makes a bed the newest one.
func (m *streams) use(b *bed) {
	if old := m.beds[m.newest]; old != nil && old.used == 0 {
		delete(m.beds, m.newest)
	}
	m.newest++
	m.beds[m.newest] = b
}

// again is rest of a stream that rests, if half of its bed is for those that do not. The bed goes with the last one.
func (m *streams) again(id uint64, bytes []byte) {
	at := m.resting[id]
	if b := m.beds[at.bed]; at.bed != m.newest && b.used < len(b.bytes)/2 {
		m.leave(id)
		m.rest(id, bytes)
	}
}

// shrink gives memory back when most of those that were awake rest.
func (m *streams) shrink() {
	if m.most > 4*len(m.awake)+1000 {
		awake := make(map[uint64]*stream, len(m.awake))
		maps.Copy(awake, m.awake)
		m.awake, m.most = awake, len(awake)
	}
}
