package storewrap

import (
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"reprise"
)

// The first byte of what is stored tells how. A batch of a Log never begins with a byte below 8, which would be
// the length of a record that is shorter than its head; so what begins with any other byte is a batch as it was
// appended, and needs no header.
//
//	+----------+--------------------------------------------------+
//	| 0        | a batch as it was appended, which begins with a  |
//	|          | byte below 8                                     |
//	+----------+--------------------------------------------------+
//	| 1        | one zstd frame (RFC 8878) with its content size, |
//	|          | and with the id of its dictionary if it has one  |
//	+----------+--------------------------------------------------+
//	| 2 to 7   | not of Compress; 5 is of Encrypt                 |
//	+----------+--------------------------------------------------+
//	| 8 to 255 | a batch as it was appended, this byte included   |
//	+----------+--------------------------------------------------+
const (
	codePlain     = 0
	codeZstd      = 1
	codeEncrypted = 5
	codes         = 8 // the first bytes below this are codes
)

const (
	// leastBatch is the size of batches, in bytes, below which nothing can be gained.
	leastBatch = 48
	// leastGain is the part of its size that a batch must lose: an eighth.
	leastGain = 8
	// dictionaryBatch is the size up to which a dictionary is of use.
	dictionaryBatch = 4 << 10
	// encoderWindow is how far back repetitions are found, in bytes; it bounds the memory of an encoder.
	encoderWindow = 1 << 20
)

// typicalOutput is a dictionary made of the output of compilers, tests and servers; see its README.
//
//go:embed dictionary/typical.dict
var typicalOutput []byte

var errCodec = errors.New("a batch that cannot be decoded")

// codec turns batches into what is stored and back. It is safe for concurrent use.
type codec struct {
	maxBatch     int
	large, small *zstd.Encoder // small has the dictionary
	decoder      *zstd.Decoder
	ids          []uint32  // of the dictionaries
	scratch      sync.Pool // of *[]byte
}

func (c *codec) init(opts CompressOptions) error {
	if opts.Level < 1 || opts.Level > 4 {
		return fmt.Errorf("%w: compression level %d, there are 1 to 4", reprise.ErrInvalid, opts.Level)
	}
	if opts.MaxBatchBytes < 0 {
		return fmt.Errorf("%w: a negative bound of the batch", reprise.ErrInvalid)
	}
	c.maxBatch = opts.MaxBatchBytes
	c.scratch.New = func() any { return new([]byte) }
	dictionaries, err := c.dictionaries(opts.Dictionaries)
	if err != nil {
		return err
	}
	encoder := []zstd.EOption{
		zstd.WithEncoderLevel(zstd.EncoderLevel(opts.Level)), zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
		zstd.WithEncoderCRC(false), // the Store inside has one
		zstd.WithSingleSegment(true), zstd.WithWindowSize(encoderWindow),
	}
	if c.large, err = zstd.NewWriter(nil, encoder...); err != nil {
		return fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	if c.small, err = zstd.NewWriter(nil, append(encoder, zstd.WithEncoderDict(dictionaries[0]))...); err != nil {
		return fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	c.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderDicts(dictionaries...),
		zstd.WithDecoderMaxMemory(uint64(max(opts.MaxBatchBytes, 1))))
	if err != nil {
		return fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	return nil
}

// dictionaries are those that are given and the one that is built in, the one for new batches first.
func (c *codec) dictionaries(given [][]byte) ([][]byte, error) {
	all := append(given[:len(given):len(given)], typicalOutput)
	for i, d := range all {
		inspected, err := zstd.InspectDictionary(d)
		if err != nil {
			return nil, fmt.Errorf("%w: dictionary %d: %w", reprise.ErrInvalid, i+1, err)
		}
		id := inspected.ID()
		for _, other := range c.ids {
			if id == other {
				return nil, fmt.Errorf("%w: two dictionaries with the id %d", reprise.ErrInvalid, id)
			}
		}
		c.ids = append(c.ids, id)
	}
	return all, nil
}

// encode returns what is stored of a batch: b itself, or new memory of which nobody else knows.
func (c *codec) encode(b []byte) []byte {
	if len(b) >= leastBatch && len(b) <= c.maxBatch {
		encoder := c.large
		if len(b) <= dictionaryBatch {
			encoder = c.small
		}
		scratch := c.scratch.Get().(*[]byte)
		defer c.scratch.Put(scratch)
		out := encoder.EncodeAll(b, append((*scratch)[:0], codeZstd))
		*scratch = out
		if len(out) <= len(b)-len(b)/leastGain {
			return append(make([]byte, 0, len(out)), out...)
		}
	}
	if len(b) == 0 || b[0] < codes {
		return append(append(make([]byte, 0, 1+len(b)), codePlain), b...)
	}
	return b
}

// decode is the inverse of encode. What it returns may share its memory with b.
func (c *codec) decode(b []byte) ([]byte, error) {
	switch {
	case len(b) == 0:
		return nil, fmt.Errorf("%w: it is empty", errCodec)
	case b[0] >= codes:
		return b, nil
	case b[0] == codePlain:
		return b[1:], nil
	case b[0] == codeEncrypted:
		return nil, fmt.Errorf("%w: it is encrypted; Encrypt is missing around the Store inside", errCodec)
	case b[0] != codeZstd:
		return nil, fmt.Errorf("%w: code %d is not known", errCodec, b[0])
	}
	out, err := c.decoder.DecodeAll(b[1:], nil)
	switch {
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return nil, fmt.Errorf("%w: it needs the dictionary %d, known are %d", errCodec, dictionaryOf(b[1:]), c.ids)
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, fmt.Errorf("%w: it has more than %d bytes", errCodec, c.maxBatch)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errCodec, err)
	}
	return out, nil
}

// dictionaryOf is the id of the dictionary that a frame needs.
func dictionaryOf(frame []byte) uint32 {
	var h zstd.Header
	if h.Decode(frame) != nil {
		return 0
	}
	return h.DictionaryID
}
