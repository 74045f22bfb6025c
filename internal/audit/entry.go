package audit

import (
	"encoding/json"
	"strings"

	"reprise"
	"reprise/client"
)

// Tenant owns the stream of the records, and nothing else.
const Tenant reprise.Tenant = "reprise.audit"

// StreamKey is the stream of the records.
var StreamKey = reprise.StreamKey{Tenant: Tenant, Name: "audit"}

// EventType is the type of the records.
const EventType = "audit"

// Entry is one act, or several of a kind that were refused.
type Entry = client.AuditEntry

// maxText bounds each text of an entry.
const maxText = 512

// clean makes texts of what clients have sent that look the same after they were kept as JSON.
func clean(e *Entry) {
	for _, text := range []*string{&e.Principal, &e.Act, &e.Object, &e.Remote, &e.Request, &e.Result} {
		if len(*text) > maxText {
			*text = (*text)[:maxText]
		}
		*text = strings.ToValidUTF8(*text, "?")
	}
}

// record is the stored form of an Entry.
type record client.AuditRecord

// label is what codes are made under.
const label = "reprise audit record 1"

// seal sets the code of a record.
func (r *record) seal(keys *reprise.Keyset) error {
	text, err := r.plain()
	if err == nil {
		r.Code = keys.Sign(label, text)
	}
	return err
}

// holds reports whether the code of the record is valid.
func (r *record) holds(keys *reprise.Keyset) bool {
	text, err := r.plain()
	return err == nil && keys.Verify(r.Code, label, text)
}

// plain is the record without its code.
func (r *record) plain() (string, error) {
	bare := *r
	bare.Code = ""
	text, err := json.Marshal(&bare)
	return string(text), err
}
