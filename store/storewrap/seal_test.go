package storewrap

import (
	"encoding/base64"
	"testing"

	"reprise"
	"reprise/internal/recent"
)

func newSealer(tb testing.TB) *sealer {
	tb.Helper()
	keys, err := reprise.ParseKeyset([]byte("fuzz " + base64.StdEncoding.EncodeToString(make([]byte, 32))))
	if err != nil {
		tb.Fatal(err)
	}
	s := &sealer{}
	s.init(keys)
	return s
}

// FuzzOpen: nothing that was not sealed is opened, and nothing makes open panic.
func FuzzOpen(f *testing.F) {
	s := newSealer(f)
	at := sealPlace{
		purpose: sealsBatch, key: reprise.StreamKey{Tenant: "default", Name: "s"},
		epoch: "7ZK3M9Q2VTX4WB8A", seq: 1, count: 1,
	}
	sealed, err := s.seal(at, []byte("a batch"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte{})
	f.Add([]byte{codeEncrypted, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		// sealed by another process of the fuzzer
		if plain, err := s.open(at, b); err == nil && string(plain) != "a batch" {
			t.Fatalf("%x was opened as %q", b, plain)
		}
	})
}

// FuzzConfig: what is taken for a configuration is one.
func FuzzConfig(f *testing.F) {
	f.Add(appendConfig(nil, &reprise.StreamConfig{Labels: map[string]string{"a": "b", "": ""}, Meta: []byte("meta")}))
	f.Add([]byte{})
	f.Add([]byte{1, 200, 200, 200, 200, 200, 200, 200, 200, 200, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var c, again reprise.StreamConfig
		if decodeConfig(&c, b) != nil {
			return
		}
		if err := decodeConfig(&again, appendConfig(nil, &c)); err != nil || !c.Equal(again) {
			t.Fatalf("%+v came back as %+v, %v", c, again, err)
		}
	})
}

// TestDerivedKeysAreBounded: however many streams there are, and that they are derived again makes no difference.
func TestDerivedKeysAreBounded(t *testing.T) {
	s := newSealer(t)
	var first []byte
	at := sealPlace{purpose: sealsBatch, key: reprise.StreamKey{Tenant: "default", Name: "s"}}
	for i := range uint64(3 * recent.Bound) {
		at.seq = i << keyRange
		sealed, err := s.seal(at, []byte("a batch"))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = sealed
		}
		if n := s.known.Len(); n > 2*recent.Bound {
			t.Fatalf("%d keys are held", n)
		}
	}
	at.seq = 0
	if plain, err := s.open(at, first); err != nil || string(plain) != "a batch" {
		t.Errorf("the first came back as %q, %v", plain, err)
	}
	one, _ := s.known.Load(derivation{"fuzz", at.key, at.epoch, 0})
	other, _ := s.known.Load(derivation{"fuzz", at.key, at.epoch, 1})
	if one == other {
		t.Error("two parts of a stream share a key")
	}
}

func BenchmarkSeal(b *testing.B) {
	s := newSealer(b)
	at := sealPlace{
		purpose: sealsBatch, key: reprise.StreamKey{Tenant: "default", Name: "builds/42"},
		epoch: "7ZK3M9Q2VTX4WB8A", count: 1,
	}
	plain := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		at.seq++
		if _, err := s.seal(at, plain); err != nil {
			b.Fatal(err)
		}
	}
}
