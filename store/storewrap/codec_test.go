package storewrap

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"reprise"
)

func newCodec(tb testing.TB, opts *CompressOptions) *codec {
	tb.Helper()
	c := &codec{}
	if err := c.init(opts.withDefaults()); err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestCodecKeepsEverySize(t *testing.T) {
	rnd := rand.NewChaCha8([32]byte{1})
	c := newCodec(t, nil)
	for _, size := range []int{0, 1, 47, 48, 200, 1023, 1024, 1025, 16383, 16384, 16385, 100_000, 2 << 20} {
		for _, kind := range []string{"text", "noise", "zeros"} {
			b := make([]byte, size)
			switch kind {
			case "text":
				copy(b, strings.Repeat("go: downloading golang.org/x/sync v0.23.0\n", size/40+1))
			case "noise":
				rnd.Read(b)
			}
			stored := c.encode(b)
			if len(stored) > len(b)+1 {
				t.Errorf("%d bytes of %s are stored in %d", size, kind, len(stored))
			}
			got, err := c.decode(stored)
			if err != nil || !bytes.Equal(got, b) {
				t.Errorf("%d bytes of %s came back as %d, %v", size, kind, len(got), err)
			}
		}
	}
}

// TestSmallBatchesUseTheDictionary: one line of a compiler is too little to be compressed by itself.
func TestSmallBatchesUseTheDictionary(t *testing.T) {
	line := []byte("mod7.c:14:80: warning: comparison of integer expressions of different signedness: 'int' and 'unsigned int' [-Wsign-compare]\n")
	batch, err := reprise.AppendRecord(nil, &reprise.Event{Type: "stderr", Data: line})
	if err != nil {
		t.Fatal(err)
	}
	fast, thorough := newCodec(t, nil), newCodec(t, &CompressOptions{Level: 2})
	if stored := fast.encode(batch); len(stored) > len(batch)/2 || stored[0] != codeS2 ||
		uint32(stored[1]) != fast.ids[0] {
		t.Errorf("%d bytes are stored in %d: % x", len(batch), len(stored), stored)
	}
	if stored := thorough.encode(batch); len(stored) > len(batch)/2 || stored[0] != codeZstd ||
		dictionaryOf(stored[1:]) != fast.ids[0] {
		t.Errorf("%d bytes are stored in %d: % x", len(batch), len(stored), stored)
	}
	if got, err := fast.decode(thorough.encode(batch)); err != nil || !bytes.Equal(got, batch) {
		t.Errorf("from another level: %q, %v", got, err)
	}
}

// TestBatchesOfALogNeedNoHeader: the first byte of a batch is the length of its first record, which is 8 at least.
func TestBatchesOfALogNeedNoHeader(t *testing.T) {
	for size := range 300 {
		b, err := reprise.AppendRecord(nil, &reprise.Event{Type: "x", Data: make([]byte, size)})
		if err != nil || b[0] < codes {
			t.Fatalf("a record with %d bytes of data begins with %d, %v", size, b[0], err)
		}
	}
}

// TestDecompressedSizeIsBounded: a small compressed batch cannot expand beyond the limit.
func TestDecompressedSizeIsBounded(t *testing.T) {
	bomb := newCodec(t, nil).encode(make([]byte, 4<<20))
	small := newCodec(t, &CompressOptions{MaxBatchBytes: 1 << 20})
	if len(bomb) > 1000 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	if _, err := small.decode(bomb); !errors.Is(err, errCodec) {
		t.Errorf("4 MiB from %d bytes: %v", len(bomb), err)
	}
	if _, err := small.decode(append([]byte{codeS2, byte(small.ids[0])}, 0xff, 0xff, 0xff, 0x7f)); !errors.Is(err,
		errCodec) {
		t.Errorf("256 MiB from a block of S2: %v", err)
	}
	// Without a content size in its head, the frame does not say what it becomes.
	var streamed bytes.Buffer
	w, err := zstd.NewWriter(&streamed, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(make([]byte, 4<<20))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := small.decode(append([]byte{codeZstd}, streamed.Bytes()...)); !errors.Is(err, errCodec) {
		t.Errorf("4 MiB from a stream of %d bytes: %v", streamed.Len(), err)
	}
	if stored := small.encode(make([]byte, 1<<20+1)); len(stored) != 1<<20+2 || stored[0] != codePlain {
		t.Errorf("a batch that is too large to be read compressed is stored in %d bytes", len(stored))
	}
}

func TestDictionariesAreFoundById(t *testing.T) {
	mine := bytes.Clone(typicalOutput)
	mine[4]++ // the id follows the magic number
	for _, level := range []int{1, 2} {
		batch := []byte(strings.Repeat("# runtime\nmkdir -p $WORK/b012/\n", 6))
		old := newCodec(t, &CompressOptions{Level: level})
		later := newCodec(t, &CompressOptions{Level: level, Dictionaries: [][]byte{mine}})
		stored := later.encode(batch)
		if got, err := later.decode(stored); err != nil || !bytes.Equal(got, batch) ||
			bytes.Equal(stored, old.encode(batch)) {
			t.Errorf("with another dictionary: %v", err)
		}
		if got, err := later.decode(old.encode(batch)); err != nil || !bytes.Equal(got, batch) {
			t.Errorf("what was stored with the built-in dictionary: %v", err)
		}
		if _, err := old.decode(stored); !errors.Is(err, errCodec) {
			t.Errorf("a dictionary that is missing: %v", err)
		}
	}
	for _, bad := range [][][]byte{{typicalOutput}, {mine, mine}, {[]byte("no dictionary")}, {nil}} {
		if err := new(codec).init((&CompressOptions{Dictionaries: bad}).withDefaults()); !errors.Is(err,
			reprise.ErrInvalid) {
			t.Errorf("%d dictionaries that are wrong: %v", len(bad), err)
		}
	}
}

func TestCompressOptionsAreChecked(t *testing.T) {
	for _, opts := range []CompressOptions{{Level: 4}, {Level: -1}, {MaxBatchBytes: -1}} {
		if err := new(codec).init(opts.withDefaults()); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

// FuzzCodec: decode never panics and is bounded, and is the inverse of encode.
func FuzzCodec(f *testing.F) {
	c := newCodec(f, &CompressOptions{MaxBatchBytes: 1 << 20})
	for _, seed := range []string{
		"", "\x00", "\x01", "\x05x", "\x02\x48\x05", "a batch",
		strings.Repeat("line\n", 100),
	} {
		f.Add([]byte(seed))
		f.Add(c.encode([]byte(seed)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := c.decode(b); err == nil && len(got) > max(1<<20, len(b)) {
			t.Fatalf("%d bytes became %d", len(b), len(got))
		}
		if got, err := c.decode(c.encode(b)); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%q came back as %q, %v", b, got, err)
		}
	})
}
