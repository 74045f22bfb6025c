package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"sort"

	"github.com/klauspost/compress/zstd"

	"reprise"
)

// File reads one archived stream. It is safe for concurrent use if its reader is.
type File struct {
	r       io.ReaderAt
	size    int64
	decoder *zstd.Decoder
	info    reprise.StreamInfo
	first   uint64 // event of the first batch
	begin   int64  // where the blocks begin
	index   []byte // entries
	place   int64  // of the index
	sum     [sha256.Size]byte
}

// tailBytes is how much is read at once from the end of a file. A small file is read completely.
const tailBytes = 64 << 10

// OpenFile reads the header and the index of a file of the given size. The error wraps ErrDamaged if the file is
// damaged or not an archive; blocks are checked as they are read. The caller keeps ownership of r.
func OpenFile(r io.ReaderAt, size int64) (*File, error) {
	decoder, err := newDecoder()
	if err != nil {
		return nil, err
	}
	return openFile(r, size, decoder)
}

func openFile(r io.ReaderAt, size int64, decoder *zstd.Decoder) (*File, error) {
	f := &File{r: r, size: size, decoder: decoder}
	if err := f.readEnd(); err != nil {
		return nil, err
	}
	if err := f.readHeader(); err != nil {
		return nil, err
	}
	return f, f.checkIndex()
}

// tail answers reads near the end of a file from memory.
type tail struct {
	io.ReaderAt
	from  int64
	bytes []byte
}

func (t *tail) ReadAt(p []byte, at int64) (int, error) {
	if at < t.from {
		return t.ReaderAt.ReadAt(p, at)
	}
	return bytes.NewReader(t.bytes).ReadAt(p, at-t.from)
}

// bytesAt reads n bytes. What is not there was cut off.
func (f *File) bytesAt(at, n int64) ([]byte, error) {
	if at < 0 || n < 0 || at > f.size || n > f.size-at {
		return nil, fmt.Errorf("%w: bytes %d to %d of %d", ErrDamaged, at, at+n, f.size)
	}
	b := make([]byte, n)
	got, err := f.r.ReadAt(b, at)
	if int64(got) == n {
		return b, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: it ends after %d bytes of %d", ErrDamaged, at+int64(got), f.size)
	}
	return nil, err
}

// readEnd reads footer and index.
func (f *File) readEnd() error {
	from := max(0, f.size-tailBytes)
	end, err := f.bytesAt(from, f.size-from)
	if err != nil {
		return err
	}
	n := len(end) - footerSize
	if n < 0 || string(end[len(end)-len(endMagic):]) != endMagic {
		return fmt.Errorf("%w: it has no end", ErrDamaged)
	}
	f.r = &tail{f.r, from, end}
	footer, err := unseal(end[n:len(end)-len(endMagic)], "footer")
	if err != nil {
		return err
	}
	place, blocks := binary.LittleEndian.Uint64(footer), binary.LittleEndian.Uint64(footer[8:])
	copy(f.sum[:], footer[16:])
	room := uint64(f.size - int64(footerSize) - crcBytes)
	if place > room || blocks > (room-place)/indexEntry || place+blocks*indexEntry != room {
		return fmt.Errorf("%w: an index of %d blocks at byte %d of %d", ErrDamaged, blocks, place, f.size)
	}
	f.place = int64(place)
	index, err := f.bytesAt(f.place, int64(blocks)*indexEntry+crcBytes)
	if err != nil {
		return err
	}
	f.index, err = unseal(index, "index")
	return err
}

// readHeader reads magic and header.
func (f *File) readHeader() error {
	const head = int64(len(magic) + 4)
	b, err := f.bytesAt(0, head)
	if err != nil {
		return err
	}
	if string(b[:len(magic)]) != magic {
		return fmt.Errorf("%w: it is not an archive that this program supports", ErrDamaged)
	}
	length := int64(binary.LittleEndian.Uint32(b[len(magic):]))
	if length > maxHeaderBytes {
		return fmt.Errorf("%w: a header of %d bytes", ErrDamaged, length)
	}
	sealed, err := f.bytesAt(head-4, 4+length+crcBytes)
	if err != nil {
		return err
	}
	text, err := unseal(sealed, "header")
	if err != nil {
		return err
	}
	h, err := parseHeader(text[4:])
	if err != nil {
		return err
	}
	f.info, f.first, f.begin = h.info(), h.First, head+length+crcBytes
	return nil
}

// checkIndex checks that the blocks follow each other.
func (f *File) checkIndex() error {
	first, place := f.first, f.begin
	for i := range f.blocks() {
		if event, at := f.block(i); i == 0 && (event != first || at != place) || i > 0 &&
			(event <= first || at <= place) ||
			event > f.info.Tail || at >= f.place {
			return fmt.Errorf("%w: block %d with event %d at byte %d", ErrDamaged, i, event, at)
		}
		first, place = f.block(i)
	}
	if f.blocks() == 0 && (f.first <= f.info.Tail || f.place != f.begin) {
		return fmt.Errorf("%w: there are no blocks", ErrDamaged)
	}
	return nil
}

func (f *File) blocks() int { return len(f.index) / indexEntry }

// block returns the seq of the first event of a block, and its position.
func (f *File) block(i int) (first uint64, at int64) {
	e := f.index[i*indexEntry:]
	return binary.LittleEndian.Uint64(e), int64(binary.LittleEndian.Uint64(e[8:]))
}

// Info is the stream as it was when it was archived. The caller must not change it.
func (f *File) Info() reprise.StreamInfo { return f.info }

// Read returns a page as reprise.Store.Read does. Its cost is a search in the index and the
// blocks that are read, 256 KiB before compression each, or one large batch.
func (f *File) Read(after uint64, maxBytes int) (reprise.Page, error) {
	page := reprise.Page{Info: f.info}
	if after >= f.info.Tail || maxBytes <= 0 || f.info.Kept() == 0 {
		return page, nil
	}
	want := max(after+1, f.info.Earliest)
	at := sort.Search(f.blocks(), func(i int) bool {
		first, _ := f.block(i)
		return first > want
	}) - 1
	for ; at < f.blocks() && maxBytes > 0; at++ {
		batches, err := f.readBlock(at, nil)
		if err != nil {
			return reprise.Page{}, err
		}
		for _, b := range batches {
			if b.Last() < want || maxBytes <= 0 {
				continue
			}
			page.Batches = append(page.Batches, b)
			maxBytes -= len(b.Bytes)
		}
	}
	return page, nil
}

// readBlock returns the batches of a block, and adds its bytes to sum if that is not nil.
func (f *File) readBlock(i int, sum hash.Hash) ([]reprise.Batch, error) {
	first, at := f.block(i)
	end, next := f.place, f.info.Tail+1
	if i+1 < f.blocks() {
		next, end = f.block(i + 1)
	}
	sealed, err := f.bytesAt(at, end-at)
	if err != nil {
		return nil, err
	}
	if sum != nil {
		sum.Write(sealed)
	}
	raw, err := openBlock(sealed, f.decoder)
	if err != nil {
		return nil, err
	}
	var batches []reprise.Batch
	for len(raw) > 0 {
		var b reprise.Batch
		if b, raw, err = cutBatch(raw, first); err != nil {
			return nil, err
		}
		batches = append(batches, b)
		first = b.Last() + 1
	}
	if first != next || len(batches) == 0 {
		return nil, fmt.Errorf("%w: block %d ends before event %d in place of %d", ErrDamaged, i, first, next)
	}
	return batches, nil
}

// Verify reads all of the file and compares it with its SHA-256.
func (f *File) Verify() error {
	sum := sha256.New()
	head, err := f.bytesAt(0, f.begin)
	if err != nil {
		return err
	}
	sum.Write(head)
	for i := range f.blocks() {
		if _, err := f.readBlock(i, sum); err != nil {
			return err
		}
	}
	index, err := f.bytesAt(f.place, f.size-int64(footerSize)-f.place)
	if err != nil {
		return err
	}
	sum.Write(index)
	if !bytes.Equal(sum.Sum(nil), f.sum[:]) {
		return fmt.Errorf("%w: another SHA-256", ErrDamaged)
	}
	return nil
}
