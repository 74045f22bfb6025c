package audit

import (
	"encoding/json"
	"strings"
	"time"

	"reprise"
)

// Tenant owns the stream of the records, and nothing else.
const Tenant reprise.Tenant = "reprise.audit"

// StreamKey is the stream of the records.
var StreamKey = reprise.StreamKey{Tenant: Tenant, Name: "audit"}

// EventType is the type of the records.
const EventType = "audit"

// Entry is one act, or several of a kind that were refused.
type Entry struct {
	Time time.Time `json:"time"`
	// Principal and Tenant identify the sender, "" for an unknown one.
	Principal string         `json:"principal"`
	Tenant    reprise.Tenant `json:"tenant"`
	// Act is the requested operation: a method and a route of the API, or "MCP" and a tool.
	Act string `json:"act"`
	// Object is the object of the operation: a path of the API, or the id of an execution.
	Object string `json:"object,omitempty"`
	// Remote is the address that the request came from, Request its id.
	Remote  string `json:"remote,omitempty"`
	Request string `json:"request,omitempty"`
	// Result is "" for an act that was allowed, or the code by which it was refused, Count times since Time.
	Result string `json:"result,omitempty"`
	Count  int    `json:"count,omitempty"`
}

// maxText bounds each text of an entry.
const maxText = 512

// clean makes texts of what clients have sent that look the same after they were kept as JSON.
func (e *Entry) clean() {
	for _, text := range []*string{&e.Principal, &e.Act, &e.Object, &e.Remote, &e.Request, &e.Result} {
		if len(*text) > maxText {
			*text = (*text)[:maxText]
		}
		*text = strings.ToValidUTF8(*text, "?")
	}
}

// record is the stored form of an Entry.
type record struct {
	Entry
	// Writer names the chain, and N numbers its records from 1.
	Writer string `json:"writer"`
	N      uint64 `json:"n"`
	// Prev is the Code of the previous record in the chain, or for the first one that of the newest record of all.
	Prev string `json:"prev"`
	Code string `json:"code,omitempty"`
}

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
