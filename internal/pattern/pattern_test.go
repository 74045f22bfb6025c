package pattern_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"reprise/internal/pattern"
)

const costly = "(?:a{0,200}){2}b"

func TestCompileBoundsProgram(t *testing.T) {
	for _, text := range []string{
		"", `\$ $`, "(?i)error|failed|panic", `\d{1,3}(\.\d{1,3}){3}`, "[a-z]{100}", costly, ".*", "(?m)^ok$",
	} {
		if _, err := pattern.Compile(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"(", "a{0,1000}b{0,1000}", "(?:a{0,500}){2}b", "((a{0,100}){0,100}){0,100}", "(?:(?:a?){30}){40}",
		strings.Repeat("a", 2000), strings.Repeat("a", pattern.MaxBytes+1),
	} {
		if _, err := pattern.Compile(text); err == nil {
			t.Errorf("%.40q is taken", text)
		}
	}
}

func TestCheckGlob(t *testing.T) {
	for glob, taken := range map[string]bool{
		"*.go": true, "[": false, strings.Repeat("*", pattern.MaxBytes): true,
		strings.Repeat("*", pattern.MaxBytes+1): false,
	} {
		if err := pattern.CheckGlob(glob); (err == nil) != taken {
			t.Errorf("%.20q: %v", glob, err)
		}
	}
}

// TestFindIsThatOfRegexp: long texts, which are searched in pieces, have the same matches.
func TestFindIsThatOfRegexp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{`x$`, "(?:a{0,90}){2}b", `^a+é?b`, "c.{0,100}d", "a{100}.?b"} {
		compiled, err := pattern.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 100, 20_000, 120_000} {
			in := bytes.Repeat([]byte{'a'}, size)
			for range random.IntN(4) {
				in = append(in, "é\xffbcdx"[random.IntN(6):]...)
				in = append(in, bytes.Repeat([]byte{'z'}, random.IntN(300))...)
			}
			want := -1
			if found := regexp.MustCompile(text).FindIndex(in); found != nil {
				want = found[1]
			}
			if got, err := compiled.Search().Find(t.Context(), in); got != want || err != nil {
				t.Errorf("%q in %d bytes: %d, %v, want %d", text, len(in), got, err, want)
			}
		}
	}
}

// countdown is done after a number of looks at it.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func (c *countdown) Value(any) any { return nil }

func TestFindStopsWithItsContext(t *testing.T) {
	compiled, err := pattern.Compile(costly)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte{'a'}, 1<<20)
	if _, err := compiled.Search().Find(&countdown{t.Context(), 3}, text); !errors.Is(err, context.Canceled) {
		t.Errorf("a search whose request is canceled: %v", err)
	}
}

func TestFindStopsAtItsWork(t *testing.T) {
	compiled, err := pattern.Compile(costly)
	if err != nil {
		t.Fatal(err)
	}
	search, n := compiled.Search(), 0
	for _, size := range []int{4 << 10, 100 << 10, 8 << 20} { // the last is begun, and stopped in the middle
		text := bytes.Repeat([]byte{'a'}, size)
		if _, err = search.Find(t.Context(), text); err != nil {
			break
		}
		n += size
	}
	if !errors.Is(err, pattern.ErrWork) || n != 104<<10 || search.Affords(1) {
		t.Errorf("%v after %d bytes", err, n)
	}
	if _, err := search.Find(t.Context(), []byte("b")); !errors.Is(err, pattern.ErrWork) {
		t.Errorf("after the work: %v", err)
	}
}
