package natsstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"reprise"
)

// errNewer means that a newer version of this program wrote the data.
var errNewer = fmt.Errorf("%w: written by a newer version", reprise.ErrInvalid)

// record is the entry of a stream in the index: its configuration. It never changes: another configuration is another
// record. The first one says where lists show the stream.
type record struct {
	key    reprise.StreamKey // from the subject of the message
	epoch  reprise.Epoch
	config reprise.StreamConfig
}

// fits reports whether r is the record of a stream. An index that has lost records gives their sequences again, so the
// sequence that the stream points to may belong to another stream's record. The record has the epoch in which the
// stream was created, which a stream that has moved through more than reprise.MaxLineage epochs does not know any more,
// nor one that was moved by a version of this package without lineages.
func (r *record) fits(key reprise.StreamKey, st *state) bool {
	ofIt := func(a reprise.Ancestor) bool { return a.Epoch == r.epoch }
	n := len(st.lineage)
	return r.key == key && (r.epoch == st.epoch ||
		st.renewed && (n == 0 || n >= reprise.MaxLineage || slices.ContainsFunc(st.lineage, ofIt)))
}

// encode is the body of the message:
//
//	version, epoch, max events, max bytes, max age, labels, meta, CRC-32C of all before
func (r *record) encode() []byte {
	b := append(make([]byte, 0, 64+len(r.config.Meta)), formatVersion)
	b = appendText(b, string(r.epoch))
	b = binary.AppendVarint(b, r.config.Retention.MaxEvents)
	b = binary.AppendVarint(b, r.config.Retention.MaxBytes)
	b = binary.AppendVarint(b, int64(r.config.Retention.MaxAge))
	b = binary.AppendUvarint(b, uint64(len(r.config.Labels)))
	for _, label := range slices.Sorted(maps.Keys(r.config.Labels)) {
		b = appendText(b, label)
		b = appendText(b, r.config.Labels[label])
	}
	b = appendText(b, string(r.config.Meta))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeRecord is the inverse of encode.
func decodeRecord(key reprise.StreamKey, b []byte) (*record, error) {
	d, err := newDecoder(b, 0, formatVersion)
	if err != nil {
		return nil, err
	}
	r := &record{key: key, epoch: reprise.Epoch(d.text())}
	r.config.Retention = reprise.Retention{
		MaxEvents: d.signed(),
		MaxBytes:  d.signed(),
		MaxAge:    time.Duration(d.signed()),
	}
	if n := d.length(2); n > 0 {
		r.config.Labels = make(map[string]string, n)
		for range n {
			label := d.text()
			r.config.Labels[label] = d.text()
		}
	}
	if meta := d.text(); meta != "" {
		r.config.Meta = []byte(meta)
	}
	return r, d.done()
}

// ending announces the end of a stream. It is written before the end, which may then fail to be written.
type ending struct {
	key     reprise.StreamKey
	epoch   reprise.Epoch
	expires int64 // unix ms
}

// encode is the body of the message: version, tenant, name, epoch, expires, CRC-32C of all before.
func (e *ending) encode() []byte {
	b := []byte{formatVersion}
	b = appendText(b, string(e.key.Tenant))
	b = appendText(b, e.key.Name)
	b = appendText(b, string(e.epoch))
	b = binary.AppendVarint(b, e.expires)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeEnding(b []byte) (*ending, error) {
	d, err := newDecoder(b, 0, formatVersion)
	if err != nil {
		return nil, err
	}
	e := &ending{
		key:     reprise.StreamKey{Tenant: reprise.Tenant(d.text()), Name: d.text()},
		epoch:   reprise.Epoch(d.text()),
		expires: d.signed(),
	}
	return e, d.done()
}
