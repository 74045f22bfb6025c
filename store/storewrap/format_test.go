package storewrap

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"reprise"
)

// What is stored must be readable for ever. These were stored by the first version, and are decoded by each later one.

func TestCompressedFormatStays(t *testing.T) {
	const line = "mod7.c:14:80: warning: 'count' defined but not used [-Wunused-function]\n"
	c := newCodec(t, nil)
	for stored, want := range map[string]string{
		"00" + "0707": "\a\a",
		"0f" + "6162": "\x0fab",
		// S2 and zstd with the dictionary 72, and zstd alone.
		"0248480c6d6f64372e3b3c34726e696e673a2027636f756e74270e2f361500181474696f6e5d0a":     line,
		"0128b52ffd214848f5000024016d6f6437726e696e673a2027636f756e742702100d652ca47c384704": line,
		"0128b52ffd60c05c150100840161206c696e65207468617420636f6d657320616761696e0a015414043294761b": strings.Repeat(
			"a line that comes again\n", 1000,
		),
	} {
		b, err := hex.DecodeString(stored)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.decode(b); err != nil || string(got) != want {
			t.Errorf("%s: got %.80q, %v", stored, got, err)
		}
	}
}

func TestEncryptedFormatStays(t *testing.T) {
	keys, err := reprise.ParseKeyset([]byte("k1 " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))))
	if err != nil {
		t.Fatal(err)
	}
	s := &sealer{}
	s.init(keys)
	stored, err := hex.DecodeString("05026b313e10cd92f182162ce424ae65038d477190a3539d57aede3fd87557867ac5aaccbbf58b")
	if err != nil {
		t.Fatal(err)
	}
	at := batchPlace(reprise.StreamKey{Tenant: "default", Name: "builds/42"}, "7ZK3M9Q2VTX4WB8A", 1<<25, 3)
	if got, err := s.open(at, stored); err != nil || string(got) != "a batch" {
		t.Errorf("got %q, %v", got, err)
	}
}
