package reprise_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"reprise"
)

// Two keys as they stand in a file.
const (
	firstKey  = "first AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
	secondKey = "second //79/Pv6+fj39vX08/Lx8O/u7ezr6uno5+bl5OPi4eA=\n"
)

func parseKeys(tb testing.TB, text string) *reprise.Keyset {
	tb.Helper()
	keys, err := reprise.ParseKeyset([]byte(text))
	check(tb, err)
	return keys
}

func TestSignAndVerify(t *testing.T) {
	keys := parseKeys(t, firstKey)
	mac := keys.Sign("ticket 1", "a", "bc")
	if !strings.HasPrefix(mac, "first.") || len(mac) != len("first.")+52 {
		t.Errorf("the code is %q", mac)
	}
	if !keys.Verify(mac, "ticket 1", "a", "bc") {
		t.Error("what was signed does not verify")
	}
	for _, parts := range [][]string{{"ab", "c"}, {"abc"}, {"a", "bc", ""}, {"", "a", "bc"}, {"a", "bC"}, {}} {
		if keys.Verify(mac, "ticket 1", parts...) {
			t.Errorf("it verifies for %q", parts)
		}
	}
	if keys.Verify(mac, "ticket 2", "a", "bc") {
		t.Error("it verifies for another purpose")
	}
	for _, forged := range []string{
		"", ".", "first", "first.", mac[:len(mac)-1], mac + "0", "second" + mac[5:],
		mac[6:], "." + mac[6:],
	} {
		if keys.Verify(forged, "ticket 1", "a", "bc") {
			t.Errorf("%q verifies", forged)
		}
	}
	if reprise.NewKeyset().Verify(mac, "ticket 1", "a", "bc") {
		t.Error("another ring verifies it")
	}
}

// TestKeyRotation: a new key goes in front, cursors of the old one are good until it leaves the set.
func TestKeyRotation(t *testing.T) {
	store := memory(t)
	cursorUnder := func(ring string) (s *reprise.Stream, c reprise.Cursor) {
		log := openLog(t, store, &reprise.Options{Keys: parseKeys(t, ring)})
		s, _, err := log.Create(t.Context(), named("s"), reprise.StreamConfig{})
		check(t, err)
		return s, s.Cursor(0)
	}
	_, old := cursorUnder(firstKey)
	both, current := cursorUnder(secondKey + firstKey)
	if old.Tag == current.Tag || old.Epoch != current.Epoch {
		t.Fatalf("cursors %v and %v", old, current)
	}
	for _, c := range []reprise.Cursor{old, current} {
		check(t, openReader(t, both, reprise.After(c)).Close())
	}
	s, _ := cursorUnder(secondKey)
	check(t, openReader(t, s, reprise.After(current)).Close())
	_, err := s.Reader(t.Context(), reprise.After(old))
	wantError(t, err, reprise.ErrCursorForeign)

	mac := parseKeys(t, firstKey).Sign("l", "p")
	if !parseKeys(t, secondKey+firstKey).Verify(mac, "l", "p") || parseKeys(t, secondKey).Verify(mac, "l", "p") {
		t.Error("codes are not verified by the keys of the set")
	}
}

func TestParseKeys(t *testing.T) {
	ring := parseKeys(t, "\n# a comment\n  "+secondKey+"\r\n\n"+firstKey)
	if mac := ring.Sign("l"); !strings.HasPrefix(mac, "second.") {
		t.Errorf("the first line does not sign: %q", mac)
	}
	secret := strings.TrimSpace(strings.TrimPrefix(firstKey, "first "))
	for _, text := range []string{
		"", "\n", "# nothing\n", "first", "first ", "first " + secret[4:], "first " + secret + "AAAA",
		"first !" + secret[1:], secret, "a/b " + secret, " " + secret, strings.Repeat("x", 33) + " " + secret,
		firstKey + "second", firstKey + strings.Replace(secondKey, "second", "first", 1), firstKey + "\x00\x01\x02",
		strings.Repeat("x", 1<<20),
	} {
		_, err := reprise.ParseKeyset([]byte(text))
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("ParseKeyset(%.60q): %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error tells the secret")
		}
	}
}

func TestLoadKeysMakesThemOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	const processes = 8
	macs := make([]string, processes)
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() {
			keys, err := reprise.LoadKeyset(path)
			if err != nil {
				t.Error(err)
				return
			}
			macs[i] = keys.Sign("l", "p")
		})
	}
	wg.Wait()
	for _, mac := range macs {
		if mac != macs[0] {
			t.Errorf("two who came at once have other keys: %q, %q", mac, macs[0])
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	check(t, err)
	if len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
	stat, err := os.Stat(path)
	check(t, err)
	if stat.Mode() != 0o600 {
		t.Errorf("the mode is %v", stat.Mode())
	}
}

// TestLoadKeysLeavesDamage: a file that is no ring is an error and stays as it is, for other
// keys would make every cursor a forged one.
func TestLoadKeysLeavesDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	damaged := []byte(firstKey[:20])
	for _, text := range [][]byte{damaged, {}} {
		check(t, os.WriteFile(path, text, 0o600))
		_, err := reprise.LoadKeyset(path)
		wantError(t, err, reprise.ErrInvalid)
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, text) {
			t.Errorf("the file is now %q, %v", after, err)
		}
	}
	_, err := reprise.LoadKeyset(filepath.Join(path, "below", "a file"))
	if err == nil {
		t.Error("keys below a file were loaded")
	}
	_, err = reprise.LoadKeyset(filepath.Join(t.TempDir(), "missing", "keys"))
	wantError(t, err, fs.ErrNotExist)
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(secondKey + firstKey))
	f.Add([]byte("# x\n\n" + firstKey))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := reprise.ParseKeyset(text)
		if err != nil {
			if !errors.Is(err, reprise.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if mac := keys.Sign("l", "p"); !keys.Verify(mac, "l", "p") {
			t.Fatalf("the keys %q do not verify their own %q", text, mac)
		}
	})
}

func TestDerivedKeysAreOthers(t *testing.T) {
	keys := reprise.NewKeyset()
	one, two := keys.Derive("one"), keys.Derive("two")
	if !one.Verify(keys.Derive("one").Sign("label"), "label") {
		t.Error("derived again they are others")
	}
	for _, other := range []*reprise.Keyset{keys, two, reprise.NewKeyset().Derive("one")} {
		if one.Verify(other.Sign("label"), "label") || other.Verify(one.Sign("label"), "label") {
			t.Error("keys of another purpose verify")
		}
	}
}
