package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"

	"reprise"
)

// Write writes an ended stream as one file. It needs memory for one block, 256 KiB or the largest batch. The batches
// are those from the one that holds info.Earliest to the tail, without a hole. If they are not, or yield an error,
// Write returns an error and the written bytes are invalid. The error for an open stream is ErrInvalid.
func Write(w io.Writer, info reprise.StreamInfo, batches iter.Seq2[reprise.Batch, error]) error {
	if info.End == nil {
		return errOpen
	}
	encoder, err := newEncoder()
	if err != nil {
		return err
	}
	defer encoder.Close()
	f := &fileWriter{w: w, sum: sha256.New(), encoder: encoder}
	for b, err := range batches {
		if err == nil {
			err = f.batch(&b, &info)
		}
		if err != nil {
			return err
		}
	}
	return f.finish(&info)
}

// fileWriter writes one file.
type fileWriter struct {
	w       io.Writer
	sum     hash.Hash
	encoder *zstd.Encoder
	at      int64 // bytes written
	begun   bool
	next    uint64 // the event that must come next
	first   uint64 // the first event of the block
	raw     []byte // the block so far
	out     []byte // room for a block
	index   []byte
}

func (f *fileWriter) write(b []byte) error {
	f.sum.Write(b)
	n, err := f.w.Write(b)
	f.at += int64(n)
	return err
}

// begin writes magic and header.
func (f *fileWriter) begin(info *reprise.StreamInfo, first uint64) error {
	text, err := json.Marshal(newHeader(info, first))
	if err != nil {
		return err
	}
	if len(text) > maxHeaderBytes {
		return fmt.Errorf("%w: %d bytes of configuration, producers and end cannot be archived", reprise.ErrInvalid,
			len(text))
	}
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(text)))
	b = seal(append(b, text...), len(magic))
	f.begun, f.next, f.first = true, first, first
	return f.write(b)
}

// batch adds a batch.
func (f *fileWriter) batch(b *reprise.Batch, info *reprise.StreamInfo) error {
	if !f.begun {
		if b.First > info.Earliest || b.Last() < info.Earliest {
			return fmt.Errorf("the first batch holds events %d to %d, and the window begins with %d", b.First, b.Last(),
				info.Earliest)
		}
		if err := f.begin(info, b.First); err != nil {
			return err
		}
	}
	switch {
	case b.First != f.next, b.Count < 1, b.Last() > info.Tail:
		return fmt.Errorf("a batch of events %d to %d in place of %d to %d at most", b.First, b.Last(), f.next,
			info.Tail)
	case len(b.Bytes) > maxBlockBytes-2*binary.MaxVarintLen64:
		return fmt.Errorf("%w: a batch of %d bytes cannot be archived", reprise.ErrInvalid, len(b.Bytes))
	case len(f.raw) > 0 && len(f.raw)+len(b.Bytes) > maxBlockBytes-2*binary.MaxVarintLen64:
		if err := f.block(); err != nil {
			return err
		}
	}
	f.raw = appendBatch(f.raw, b)
	if f.next = b.Last() + 1; len(f.raw) >= blockBytes {
		return f.block()
	}
	return nil
}

// block writes what is gathered as a block.
func (f *fileWriter) block() error {
	f.index = binary.LittleEndian.AppendUint64(f.index, f.first)
	f.index = binary.LittleEndian.AppendUint64(f.index, uint64(f.at))
	f.out = appendBlock(f.out[:0], f.raw, f.encoder)
	f.raw, f.first = f.raw[:0], f.next
	return f.write(f.out)
}

// finish writes the rest, once all batches are there.
func (f *fileWriter) finish(info *reprise.StreamInfo) error {
	if !f.begun {
		if info.Kept() > 0 {
			return fmt.Errorf("no batches, and events %d to %d are kept", info.Earliest, info.Tail)
		}
		if err := f.begin(info, info.Earliest); err != nil {
			return err
		}
	}
	if f.next != info.Tail+1 {
		return fmt.Errorf("the batches end before event %d, the tail is %d", f.next, info.Tail)
	}
	if len(f.raw) > 0 {
		if err := f.block(); err != nil {
			return err
		}
	}
	place, blocks := f.at, len(f.index)/indexEntry
	if err := f.write(seal(f.index, 0)); err != nil {
		return err
	}
	footer := binary.LittleEndian.AppendUint64(nil, uint64(place))
	footer = binary.LittleEndian.AppendUint64(footer, uint64(blocks))
	footer = f.sum.Sum(footer)
	return f.write(append(seal(footer, 0), endMagic...))
}
