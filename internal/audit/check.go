package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"reprise"
	"reprise/client"
)

// Found is what Check has found.
type Found = client.AuditCheck

const maxWrong = 100

// Check reads all kept records, and reports changed and missing ones. A chain whose first records are no longer kept
// begins with its oldest kept record, unless an older one should be kept: then a record was removed. The error is that
// of the store; a trail without records is not an error.
func Check(ctx context.Context, log *reprise.Log, keys *reprise.Keyset) (Found, error) {
	c := &checker{keys: keys, ends: map[string]link{}, codes: map[string]bool{}, found: Found{Wrong: []string{}}}
	stream, err := log.Stream(ctx, StreamKey)
	if err != nil {
		return c.found, err
	}
	reader, err := stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		return c.found, err
	}
	defer reader.Close()
	c.found.First = reader.Cursor().Seq + 1
	for {
		events, err := reader.Poll(ctx)
		if err != nil || events.Len() == 0 {
			c.found.Writers = len(c.ends)
			return c.found, err
		}
		for e := range events.All() {
			c.take(&e)
		}
	}
}

// link is the end of a chain.
type link struct {
	n    uint64
	code string
}

type checker struct {
	keys  *reprise.Keyset
	ends  map[string]link
	codes map[string]bool
	found Found
}

func (c *checker) wrong(seq uint64, format string, args ...any) {
	if len(c.found.Wrong) < maxWrong {
		c.found.Wrong = append(c.found.Wrong, fmt.Sprintf("record %d: ", seq)+fmt.Sprintf(format, args...))
	}
}

func (c *checker) take(e *reprise.Event) {
	c.found.Records++
	var rec record
	if err := json.Unmarshal(e.Data, &rec); err != nil || !rec.holds(c.keys) {
		c.wrong(e.Seq, "it was changed, or made without the key")
		return
	}
	end, known := c.ends[rec.Writer]
	whole := c.found.First == 1 // nothing was left behind by retention
	switch {
	case known && (rec.N != end.n+1 || rec.Prev != end.code):
		c.wrong(e.Seq, "%s goes on with number %d after %d: records are missing, moved or repeated",
			rec.Writer, rec.N, end.n)
	case !known && rec.N != 1 && whole:
		c.wrong(e.Seq, "%s begins with number %d: the records before it are missing", rec.Writer, rec.N)
	case !known && rec.N == 1 && rec.Prev != "" && whole && !c.codes[rec.Prev]:
		c.wrong(e.Seq, "%s begins after a record that is missing", rec.Writer)
	}
	c.ends[rec.Writer] = link{rec.N, rec.Code}
	c.codes[rec.Code] = true
}
