// Package faults has one fault a line that ends in "want NAME", and no others.
package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strings"
	"time"
)

var errOurs = errors.New("ours")

type holder struct{ ctx, life context.Context }

// Faults has the faults.
func Faults(ctx context.Context, h *holder, pause time.Duration) (*holder, error) {
	_ = strings.Replace("a", "b", "c", 0) // want SA1018
	os.Remove("x")                        // want errcheck
	sum, err := io.ReadAll(nil)           // want SA4006
	sum = nil
	if err == io.EOF { // want errorlint
		return nil, err
	}
	if err == errOurs { //nolint:errorlint // ours, never wrapped
		return nil, err
	}
	if err != nil {
		return h, nil // want nilerr
	}
	time.Sleep(pause * time.Second)           // want durationcheck
	res, err := http.Get("http://127.0.0.1/") // want bodyclose
	for i := 0; i < 3; i++ {                  // want rangeint
		fmt.Fprintln(os.Stderr, i, len(sum), res, ctx == h.ctx, ctx == h.life)
	}
	if err != nil {
		return h, err
	}
	if h == nil {
		return &holder{ctx: h.life}, nil // want nilness
	}
	array := [2]int{2, 1}
	sort.Slice(array, func(i, j int) bool { return i < j }) // want sortslice SA1028
	_ = len(sum)                                            //nolint:errcheck // there is no error; want errcheck
	_ = len(sum)                                            //nolint:unheard // nobody knows it; want nolint
	_ = len(sum)                                            //nolint:nilerr
	return nil, errOurs
}
