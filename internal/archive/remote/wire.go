package remote

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"reprise"
	"reprise/internal/archive"
)

// Protocol is the version of what helper and client say to each other. Both are built from the same commit.
const Protocol = 2

// ProtocolArgument is the argument of a helper: its stdin and stdout are the connection.
const ProtocolArgument = "--stdio"

// Hello is the first line that a helper writes to its stdout.
type Hello struct {
	Protocol int      `json:"protocol"`
	Error    *Problem `json:"error,omitempty"`
}

// Opened is the answer to POST /open.
type Opened struct {
	Handle string `json:"handle"`
	Size   int64  `json:"size"`
}

// Listed is one line of the answer to GET /list.
type Listed struct {
	Name  string   `json:"name,omitempty"`
	End   bool     `json:"end,omitempty"`
	Error *Problem `json:"error,omitempty"`
}

// Problem is an error on its way from the helper to its parent: its text, and which error of package reprise it wraps.
type Problem struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// kinds are the errors that cross by name. Any other error is final and wraps nothing.
var kinds = map[string]error{
	"invalid": reprise.ErrInvalid, "not_found": reprise.ErrNotFound, "closed": reprise.ErrClosed,
	"unavailable": reprise.ErrUnavailable,
}

// ProblemOf describes err, which must not be nil.
func ProblemOf(err error) *Problem {
	for name, kind := range kinds {
		if errors.Is(err, kind) {
			return &Problem{name, err.Error()}
		}
	}
	return &Problem{"refused", err.Error()}
}

// Err is the error that the Problem describes.
func (p *Problem) Err() error { return &remoteError{p.Text, kinds[p.Kind]} }

// remoteError has the text of the helper's error and wraps the error of package reprise of the same kind.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Unwrap() error { return e.kind }

// maxBatch bounds what ReadStream allocates for one batch: more than a commit can hold.
const maxBatch = 1 << 30

// WriteStream writes a stream for a topic: the JSON of archive.MarshalInfo, then the batches, then an end. The info is
// preceded by its length, and each batch by its first seq, its count and its length, as uvarints. The end is a 0
// in the place of a first seq: a body without one was cut off.
func WriteStream(w io.Writer, info reprise.StreamInfo, batches iter.Seq2[reprise.Batch, error]) error {
	text, err := archive.MarshalInfo(info, info.Earliest)
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(w, 64<<10)
	writeNumbers(buf, uint64(len(text)))
	buf.Write(text) //nolint:errcheck // Flush returns it
	for batch, err := range batches {
		if err != nil {
			return err
		}
		writeNumbers(buf, batch.First, uint64(batch.Count), uint64(len(batch.Bytes)))
		if _, err := buf.Write(batch.Bytes); err != nil {
			return err
		}
	}
	writeNumbers(buf, 0)
	return buf.Flush()
}

func writeNumbers(buf *bufio.Writer, numbers ...uint64) {
	var room [binary.MaxVarintLen64]byte
	for _, n := range numbers {
		buf.Write(room[:binary.PutUvarint(room[:], n)]) //nolint:errcheck // Flush returns it
	}
}

// ReadStream is the inverse of WriteStream. A batch that cannot be read is the last thing that batches yields, with an
// error that wraps reprise.ErrUnavailable.
func ReadStream(r io.Reader) (info reprise.StreamInfo, batches iter.Seq2[reprise.Batch, error], err error) {
	buf := bufio.NewReaderSize(r, 64<<10)
	text, err := readBytes(buf)
	if err != nil {
		return info, nil, cutOff(err)
	}
	if info, _, err = archive.UnmarshalInfo(text); err != nil {
		return info, nil, err
	}
	return info, func(yield func(reprise.Batch, error) bool) {
		for {
			batch, err := readBatch(buf)
			if err == nil && batch.First == 0 {
				return
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}, nil
}

// readBatch reads a batch. First is 0 at the end.
func readBatch(buf *bufio.Reader) (batch reprise.Batch, err error) {
	if batch.First, err = binary.ReadUvarint(buf); err != nil {
		return batch, cutOff(err)
	}
	if batch.First == 0 {
		return batch, nil
	}
	count, err := binary.ReadUvarint(buf)
	if err != nil {
		return batch, cutOff(err)
	}
	batch.Count = int(count)
	if batch.Bytes, err = readBytes(buf); err != nil {
		return batch, cutOff(err)
	}
	return batch, nil
}

// readBytes reads a length and so many bytes.
func readBytes(buf *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(buf)
	if err != nil {
		return nil, err
	}
	if n > maxBatch {
		return nil, fmt.Errorf("%d bytes are too many", n)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(buf, b)
	return b, err
}

func cutOff(err error) error {
	return fmt.Errorf("%w: the stream was cut off: %v", reprise.ErrUnavailable, err)
}

// Line encodes v as a line of JSON.
func Line(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // the types of this package can be encoded
	}
	return append(text, '\n')
}
