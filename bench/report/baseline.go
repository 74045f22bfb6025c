package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"

	"reprise/bench"
)

// baseline is an earlier run that this one is compared with. The zero baseline is none.
type baseline struct {
	path    string
	samples bench.Samples
}

// readBaseline reads the samples of a file, of the newest file in results that has some of this machine for "last", or
// of none for "".
func readBaseline(path string) (b baseline, err error) {
	switch path {
	case "":
	case "last":
		b.path, b.samples, err = bench.LastResults("results")
		if err == nil && b.path == "" {
			fmt.Fprintln(os.Stderr, "results has no samples of a machine as this one: nothing to compare with")
		}
	default:
		var text []byte
		if text, err = os.ReadFile(path); err == nil {
			b.path = path
			b.samples, err = bench.ReadSamples(bytes.NewReader(text))
		}
	}
	return b, err
}

// compare returns an ErrSlower that names the rows that are slower than in the baseline. A race with such a row is run
// once more, and its rows count if they are slower again.
func (b baseline) compare(ctx context.Context, scale bench.Scale, raw []byte) error {
	if b.path == "" {
		return nil
	}
	after, err := bench.ReadSamples(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	list := bench.CompareRuns(bench.Races(), b.samples, after)
	fmt.Printf("\ncompared with %s, by ratios to the limit: %d rows that both runs have\n", b.path, len(list))
	if left := bench.NotCompared(bench.Races(), b.samples, after); len(left) > 0 {
		fmt.Printf("not compared, without a limit or not in %s: %d rows\n", b.path, len(left))
		for _, row := range left {
			fmt.Printf("\t%s %s\n", row.Target, row.What)
		}
	}
	slower := bench.Slower(list)
	if len(slower) == 0 {
		return nil
	}
	again, err := b.again(ctx, scale, after)
	if err != nil {
		return err
	}
	slower = bench.Both(slower, again)
	for _, c := range slower {
		fmt.Printf("slower twice: %s\n", c)
	}
	if len(slower) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d rows", bench.ErrSlower, len(slower))
}

// again runs the races once more that have rows that are slower, and returns what is slower then.
func (b baseline) again(ctx context.Context, scale bench.Scale, after bench.Samples) ([]bench.Comparison, error) {
	var list []bench.Comparison
	for _, r := range bench.Races() {
		one := []bench.Race{r}
		slower := bench.Slower(bench.CompareRuns(one, b.samples, after))
		if len(slower) == 0 {
			continue
		}
		for _, c := range slower {
			fmt.Printf("slower, so run once more: %s\n", c)
		}
		var raw bytes.Buffer
		if _, err := race(ctx, scale, regexp.MustCompile("^"+regexp.QuoteMeta(r.Name)+"$"), &raw); err != nil {
			return nil, err
		}
		samples, err := bench.ReadSamples(&raw)
		if err != nil {
			return nil, err
		}
		list = append(list, bench.Slower(bench.CompareRuns(one, b.samples, samples))...)
	}
	return list, nil
}
