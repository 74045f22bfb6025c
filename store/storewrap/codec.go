package storewrap

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"reprise"
)

// The first byte of stored data identifies its encoding. A batch of a Log never begins with a byte below 8, which would
// be the length of a record that is shorter than its head. Data that begins with another byte is therefore a batch as
// it was appended, without a header.
//
//	+----------+--------------------------------------------------+
//	| 0        | a batch as it was appended, which begins with a  |
//	|          | byte below 8                                     |
//	+----------+--------------------------------------------------+
//	| 1        | one zstd frame (RFC 8878) with its content size, |
//	|          | and with the id of its dictionary if it has one  |
//	+----------+--------------------------------------------------+
//	| 2        | id of a dictionary as a uvarint, then one S2     |
//	|          | block made with the content of that dictionary   |
//	+----------+--------------------------------------------------+
//	| 3 to 7   | not of Compress; 5 is of Encrypt                 |
//	+----------+--------------------------------------------------+
//	| 8 to 255 | a batch as it was appended, this byte included   |
//	+----------+--------------------------------------------------+
const (
	codePlain     = 0
	codeZstd      = 1
	codeS2        = 2
	codeEncrypted = 5
	codes         = 8 // the first bytes below this are codes
)

const (
	// leastBatch is the size in bytes below which batches are not compressed.
	leastBatch = 48
	// leastGain is the divisor that yields the least gain: an eighth of the size of the batch.
	leastGain = 8
	// dictionaryBatch is the size up to which a dictionary helps zstd.
	dictionaryBatch = 16 << 10
	// tinyBatch is the size up to which S2 with a dictionary is used at level 1. It makes a line of a compiler as small
	// as zstd does, in a fifth of the time, because zstd builds tables first.
	tinyBatch = 1 << 10
	// encoderWindow is the distance in bytes at which repetitions are found. It bounds the memory of an encoder.
	encoderWindow = 1 << 20
)

// typicalOutput is a dictionary made of the output of compilers, tests and servers; see its README.
//
//go:embed dictionary/typical.dict
var typicalOutput []byte

var errCodec = errors.New("a batch that cannot be decoded")

// codec encodes batches for the wrapped Store and decodes them. It is safe for concurrent use.
type codec struct {
	maxBatch     int
	tiny         bool          // batches up to tinyBatch use S2
	large, small *zstd.Encoder // small has the dictionary
	decoder      *zstd.Decoder
	contents     map[uint64]*s2.Dict // of the dictionaries by id
	ids          []uint32            // of the dictionaries, the one of new batches first
	scratch      sync.Pool           // of *[]byte
}

func (c *codec) init(opts CompressOptions) error {
	if opts.Level < 1 || opts.Level > 3 {
		return fmt.Errorf("%w: compression level %d, there are 1 to 3", reprise.ErrInvalid, opts.Level)
	}
	if opts.MaxBatchBytes < 0 {
		return fmt.Errorf("%w: a negative bound of the batch", reprise.ErrInvalid)
	}
	c.maxBatch = opts.MaxBatchBytes
	c.tiny = opts.Level == 1
	c.contents = map[uint64]*s2.Dict{}
	c.scratch.New = func() any { return new([]byte) }
	dictionaries, err := c.dictionaries(opts.Dictionaries)
	if err != nil {
		return err
	}
	encoder := []zstd.EOption{
		zstd.WithEncoderLevel(zstd.EncoderLevel(opts.Level)), zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
		zstd.WithEncoderCRC(false), // the wrapped Store has one
		zstd.WithSingleSegment(true), zstd.WithWindowSize(encoderWindow),
	}
	if c.large, err = zstd.NewWriter(nil, encoder...); err != nil {
		return fmt.Errorf("%w: %v", reprise.ErrInvalid, err)
	}
	if c.small, err = zstd.NewWriter(nil, append(encoder, zstd.WithEncoderDict(dictionaries[0]))...); err != nil {
		return fmt.Errorf("%w: %v", reprise.ErrInvalid, err)
	}
	c.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderDicts(dictionaries...),
		zstd.WithDecoderMaxMemory(uint64(max(opts.MaxBatchBytes, 1))))
	if err != nil {
		return fmt.Errorf("%w: %v", reprise.ErrInvalid, err)
	}
	return nil
}

// dictionaries returns the given dictionaries and the built-in one. The one for new batches is first.
func (c *codec) dictionaries(given [][]byte) ([][]byte, error) {
	all := append(given[:len(given):len(given)], typicalOutput)
	for i, d := range all {
		inspected, err := zstd.InspectDictionary(d)
		if err != nil {
			return nil, fmt.Errorf("%w: dictionary %d: %v", reprise.ErrInvalid, i+1, err)
		}
		id := inspected.ID()
		if slices.Contains(c.ids, id) {
			return nil, fmt.Errorf("%w: two dictionaries with the id %d", reprise.ErrInvalid, id)
		}
		content := inspected.Content()
		c.ids = append(c.ids, id)
		// The whole content is part of the format: a dictionary that is cut or starts elsewhere yields other blocks.
		if c.contents[uint64(id)] = s2.MakeDictManual(content[max(0, len(content)-s2.MaxDictSize):],
			0); c.contents[uint64(id)] == nil {
			return nil, fmt.Errorf("%w: dictionary %d has too little in it", reprise.ErrInvalid, id)
		}
	}
	return all, nil
}

// encode returns the stored form of a batch: b itself, or newly allocated memory.
func (c *codec) encode(b []byte) []byte {
	if len(b) >= leastBatch && len(b) <= c.maxBatch {
		scratch := c.scratch.Get().(*[]byte)
		defer c.scratch.Put(scratch)
		out := c.compress((*scratch)[:0], b)
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

// compress appends the code and the compressed form of b.
func (c *codec) compress(out, b []byte) []byte {
	switch {
	case c.tiny && len(b) <= tinyBatch:
		out = binary.AppendUvarint(append(out, codeS2), uint64(c.ids[0]))
		out = slices.Grow(out, s2.MaxEncodedLen(len(b)))
		block := c.contents[uint64(c.ids[0])].Encode(out[len(out):cap(out)], b)
		return out[:len(out)+len(block)] // the block is there, because there was room for it
	case len(b) <= dictionaryBatch:
		return c.small.EncodeAll(b, append(out, codeZstd))
	default:
		return c.large.EncodeAll(b, append(out, codeZstd))
	}
}

// decode is the inverse of encode. Its result may share memory with b.
func (c *codec) decode(b []byte) ([]byte, error) {
	switch {
	case len(b) == 0:
		return nil, fmt.Errorf("%w: it is empty", errCodec)
	case b[0] >= codes:
		return b, nil
	case b[0] == codePlain:
		return b[1:], nil
	case b[0] == codeZstd:
		return c.decodeZstd(b[1:])
	case b[0] == codeS2:
		return c.decodeS2(b[1:])
	case b[0] == codeEncrypted:
		return nil, fmt.Errorf("%w: it is encrypted; Encrypt is missing around the Store inside", errCodec)
	}
	return nil, fmt.Errorf("%w: code %d is not known", errCodec, b[0])
}

func (c *codec) decodeZstd(frame []byte) ([]byte, error) {
	out, err := c.decoder.DecodeAll(frame, nil)
	switch {
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return nil, c.noDictionary(uint64(dictionaryOf(frame)))
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, c.tooLarge()
	case err != nil:
		return nil, fmt.Errorf("%w: %v", errCodec, err)
	}
	return out, nil
}

func (c *codec) decodeS2(b []byte) ([]byte, error) {
	id, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, fmt.Errorf("%w: its head is damaged", errCodec)
	}
	dictionary := c.contents[id]
	if dictionary == nil {
		return nil, c.noDictionary(id)
	}
	size, err := s2.DecodedLen(b[n:])
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %v", errCodec, err)
	case size > min(c.maxBatch, tinyBatch):
		return nil, c.tooLarge()
	}
	out, err := dictionary.Decode(nil, b[n:])
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errCodec, err)
	}
	return out, nil
}

func (c *codec) noDictionary(id uint64) error {
	return fmt.Errorf("%w: it needs the dictionary %d, known are %d", errCodec, id, c.ids)
}

func (c *codec) tooLarge() error {
	return fmt.Errorf("%w: it has more bytes than %d, or than its code allows", errCodec, c.maxBatch)
}

// dictionaryOf returns the id of the dictionary that a frame needs.
func dictionaryOf(frame []byte) uint32 {
	var h zstd.Header
	if h.Decode(frame) != nil {
		return 0
	}
	return h.DictionaryID
}
