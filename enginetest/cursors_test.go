package enginetest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"reprise"
	"reprise/store/memstore"
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

const (
	epochText = "7ZK3M9Q2VTX4WB8A"
	tagText   = "0F3KQ6T2M9YVC"
)

func TestCursorText(t *testing.T) {
	for _, seq := range []uint64{0, 1, 9, 10, 42, math.MaxInt64, math.MaxUint64} {
		c := reprise.Cursor{Seq: seq, Epoch: epochText, Tag: tagText}
		want := strconv.FormatUint(seq, 10) + "." + epochText + "." + tagText
		if got := c.String(); got != want || len(got) > 51 {
			t.Errorf("String: %q, want %q", got, want)
		}
		if got, err := reprise.ParseCursor(want); err != nil || got != c {
			t.Errorf("ParseCursor(%q): %v, %v", want, got, err)
		}
	}
	if s := (reprise.Cursor{}).String(); s != "" {
		t.Errorf("the zero cursor is %q", s)
	}
}

func TestParseCursorRefuses(t *testing.T) {
	const rest = "." + epochText + "." + tagText
	malformed := []string{
		"", "0", "7", ".", "..", "tail", rest, "-1" + rest, "+1" + rest, " 1" + rest, "1" + rest + " ",
		"01" + rest, "00" + rest, "1x" + rest, "0x1" + rest, "1e3" + rest, "1_0" + rest, "١" + rest,
		"18446744073709551616" + rest, "99999999999999999999" + rest, "100000000000000000000" + rest,
		"1" + rest + "0", "1" + rest[:len(rest)-1], "1" + rest + "\n", "1" + rest + "\x00",
		"1" + strings.ToLower(rest), "1." + epochText[1:] + "." + tagText, "1." + epochText + "0." + tagText[1:],
		"1." + epochText + "-" + tagText, "1-" + epochText + "." + tagText,
		"1." + strings.Replace(epochText, "7", "I", 1) + "." + tagText,
		"1." + strings.Replace(epochText, "7", "L", 1) + "." + tagText,
		"1." + epochText + "." + strings.Replace(tagText, "F", "O", 1),
		"1." + epochText + "." + strings.Replace(tagText, "F", "U", 1),
		strings.Repeat("1", 100_000) + rest, strings.Repeat("1", 100_000), strings.Repeat(".", 100_000),
		"1" + rest + strings.Repeat("0", 100_000),
	}
	for _, s := range malformed {
		if c, err := reprise.ParseCursor(s); !errors.Is(err, reprise.ErrCursorMalformed) || !c.IsZero() {
			t.Errorf("ParseCursor(%.80q): %v, %v", s, c, err)
		}
	}
}

func TestParsePosition(t *testing.T) {
	cursor := reprise.Cursor{Seq: 7, Epoch: epochText, Tag: tagText}
	for s, want := range map[string]reprise.Position{
		"": reprise.Earliest(), "0": reprise.Earliest(), "earliest": reprise.Earliest(),
		"tail": reprise.Tail(), cursor.String(): reprise.After(cursor),
	} {
		if got, err := reprise.ParsePosition(s); err != nil || got != want {
			t.Errorf("ParsePosition(%q): %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"Tail", "EARLIEST", "00", "1", " tail", "tail "} {
		_, err := reprise.ParsePosition(s)
		wantError(t, err, reprise.ErrCursorMalformed)
	}
}

func TestEpochsDiffer(t *testing.T) {
	seen := map[reprise.Epoch]bool{}
	for range 1000 {
		epoch := reprise.NewEpoch()
		if len(epoch) != 16 || seen[epoch] {
			t.Fatalf("epoch %q: %d bytes, seen before: %v", epoch, len(epoch), seen[epoch])
		}
		seen[epoch] = true
	}
}

func TestCursorParsingDoesNotAllocate(t *testing.T) {
	s := reprise.Cursor{Seq: 123456, Epoch: epochText, Tag: tagText}.String()
	long := strings.Repeat("9", 100_000)
	allocs := testing.AllocsPerRun(100, func() {
		_, err := reprise.ParseCursor(s)
		_, refused := reprise.ParseCursor(long)
		if err != nil || refused == nil {
			t.Error(err, refused)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestCursorRefusals: what is not a position of this life of this stream is refused, each for its reason.
func TestCursorRefusals(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{MaxEvents: 5})
	other := create(t, log, "other", reprise.Retention{MaxEvents: 5})
	add(t, s, numbered(1, 10)...)
	add(t, other, numbered(1, 10)...)

	refuse := func(c reprise.Cursor) error {
		t.Helper()
		r, err := s.Reader(t.Context(), reprise.After(c))
		if err == nil {
			check(t, r.Close())
			t.Fatalf("cursor %v was taken", c)
		}
		return err
	}
	wantError(t, refuse(other.Cursor(7)), reprise.ErrCursorForeign)

	good := s.Cursor(7)
	for i := range good.Tag {
		forged := good
		digit := "0"
		if good.Tag[i] == '0' {
			digit = "1"
		}
		forged.Tag = good.Tag[:i] + digit + good.Tag[i+1:]
		wantError(t, refuse(forged), reprise.ErrCursorForeign)
	}
	madeUp := good
	madeUp.Epoch = epochText
	wantError(t, refuse(madeUp), reprise.ErrCursorForeign)

	windowError(t, refuse(s.Cursor(4)), reprise.CursorExpired)
	windowError(t, refuse(s.Cursor(11)), reprise.CursorAhead)
	windowError(t, refuse(s.Cursor(math.MaxUint64)), reprise.CursorAhead)
	for _, seq := range []uint64{5, 10} {
		check(t, openReader(t, s, reprise.After(s.Cursor(seq))).Close())
	}

	check(t, log.Remove(t.Context(), named("s")))
	s = create(t, log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	refused := windowError(t, refuse(good), reprise.EpochChanged)
	if refused.Earliest != s.Cursor(0) || refused.Tail != s.Cursor(3) || refused.Missed() != 0 {
		t.Errorf("the window of the new epoch is told as %v to %v", refused.Earliest, refused.Tail)
	}
	forged := good
	forged.Tag = other.Cursor(0).Tag
	wantError(t, refuse(forged), reprise.ErrCursorForeign)
}

// FuzzParseCursor: what parses prints as it was, and what prints parses to the same.
func FuzzParseCursor(f *testing.F) {
	f.Add("7." + epochText + "." + tagText)
	f.Add("18446744073709551615." + epochText + "." + tagText)
	f.Add("018446744073709551615." + epochText + "." + tagText)
	f.Fuzz(func(t *testing.T, s string) {
		c, err := reprise.ParseCursor(s)
		if err != nil {
			if !errors.Is(err, reprise.ErrCursorMalformed) || !c.IsZero() {
				t.Fatalf("ParseCursor(%q): %v, %v", s, c, err)
			}
			return
		}
		if c.String() != s {
			t.Fatalf("%q is printed as %q", s, c)
		}
		if _, err := reprise.ParsePosition(s); err != nil {
			t.Fatalf("ParsePosition(%q): %v", s, err)
		}
	})
}

// TestListCursorsRevealNoOtherTenants (G8): a store numbers the streams of all tenants together, and a tenant that
// could read two of the numbers would know how many streams others have made in between.
func TestListCursorsRevealNoOtherTenants(t *testing.T) {
	keys, other := reprise.NewKeyset(), reprise.NewKeyset()
	store := memstore.New(nil)
	open := func(keys *reprise.Keyset) *reprise.Log {
		log, err := reprise.Open(t.Context(), store, &reprise.Options{Keys: keys, SweepEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
	log := open(keys)
	create := func(tenant reprise.Tenant, name string) {
		key := reprise.StreamKey{Tenant: tenant, Name: name}
		if _, _, err := log.Create(t.Context(), key, reprise.StreamConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(log *reprise.Log, tenant reprise.Tenant, after string) (names []string, next string, err error) {
		page, err := log.List(t.Context(), reprise.ListQuery{Tenant: tenant, After: after, Limit: 1})
		for i := range page.Streams {
			names = append(names, page.Streams[i].Key.Name)
		}
		return names, page.Next, err
	}
	next := func(tenant reprise.Tenant, after string) string {
		_, next, err := list(log, tenant, after)
		if err != nil || next == "" {
			t.Fatalf("the list after %q continues at %q, %v", after, next, err)
		}
		return next
	}

	create("a", "first")
	create("a", "second")
	seen := next("a", "")
	if again := next("a", ""); again != seen {
		t.Errorf("one position is %q and %q", seen, again)
	}
	for i := range 200 { // from two digits to three
		create("b", fmt.Sprint("s", i))
	}
	if next("a", "") != seen {
		t.Error("the streams of another tenant have changed a cursor")
	}
	create("a", "third")
	later := next("a", "")
	if half := len(later) / 2; len(later) != len(seen) || half < 8 || later[:8] == seen[:8] {
		t.Fatalf("%q and %q have different lengths, or begin alike", seen, later)
	}
	ofB := next("b", "")
	for name, wrong := range map[string]string{
		"a number of the store": "2", "another tenant's": ofB, "changed": strings.ToUpper(later),
		"cut": later[:len(later)-4], "not base64": "a b", "empty bytes": "AAAA",
	} {
		if _, _, err := list(log, "a", wrong); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("a cursor that is %s: %v", name, err)
		}
	}
	if names, _, err := list(log, "a", later); err != nil || fmt.Sprint(names) != "[second]" {
		t.Errorf("the page after the first is %v, %v", names, err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if names, _, err := list(open(keys), "a", later); err != nil || fmt.Sprint(names) != "[second]" {
		t.Errorf("at another replica the page after the first is %v, %v", names, err)
	}
	if _, _, err := list(open(other), "a", later); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("under other keys: %v", err)
	}
}

// TestSecretsAreNotPrinted by any of the ways in which a log might print a Keyset.
func TestSecretsAreNotPrinted(t *testing.T) {
	secret := strings.Repeat("SECRET__", 4)
	set := parseKeys(t, "a "+base64.StdEncoding.EncodeToString([]byte(secret)))
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v %s", set, set, set, set), fmt.Sprint([]any{set}),
	} {
		if strings.Contains(text, "SECRET") || strings.Contains(text, "83 69") || strings.Contains(text, "U0VDUkVU") {
			t.Errorf("printed as %q", text)
		}
	}
}

// TestSecretsOfPurposes: each key has another secret for each purpose, and Derive uses the same.
func TestSecretsOfPurposes(t *testing.T) {
	keys := reprise.NewKeyset()
	id := keys.IDs()[0]
	one, ok := keys.Secret(id, "one")
	other, _ := keys.Secret(id, "other")
	again, _ := keys.Secret(id, "one")
	if !ok || len(one) != 32 || bytes.Equal(one, other) || !bytes.Equal(one, again) {
		t.Errorf("%x, %x, %x", one, other, again)
	}
	derived, _ := reprise.ParseKeyset(fmt.Appendf(nil, "%s %s", id, base64.StdEncoding.EncodeToString(one)))
	if mac := keys.Derive("one").Sign("x"); !derived.Verify(mac, "x") {
		t.Error("Derive has another secret")
	}
	if _, ok := keys.Secret("absent", "one"); ok {
		t.Error("a key that is not in the set has a secret")
	}
}
