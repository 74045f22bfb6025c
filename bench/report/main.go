// Command report runs the races of package bench, prints how each target was
// met, and keeps the raw samples.
//
//	go run ./report            all races, a quarter to half an hour
//	go run ./report -quick     that all of them run, about a minute and a half
//	go run ./report -only Replay
//	go run ./report -against last
//
// A race of a server whose binary is not on the machine is skipped, unless the environment variable CI is set.
//
// Its status is not 0 if a race cannot run or if events were lost or doubled. How long something took decides it with
// -against alone: then it is not 0 if a row became slower than in earlier results, by more than noise.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"reprise/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if args := os.Args[1:]; bench.IsServer(args) {
		return bench.Serve(ctx, args)
	}
	quick := flag.Bool("quick", false, "run everything once and small")
	only := flag.String("only", "", "regular expression of the races to run")
	laps := flag.Int("laps", 0, "laps of each race; 0 for the usual number")
	show := flag.Bool("raw", false, "print the raw samples too")
	markdown := flag.Bool("markdown", false, "print the table in Markdown")
	earlier := flag.String("against", "",
		"raw samples to compare with: a file, or \"last\" for the newest in results of a machine as this one")
	results := flag.String("results", "",
		"folder for the raw samples; default: results for a full run, none for others")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	before, err := readBaseline(*earlier)
	if err != nil {
		return err
	}
	scale := bench.Full
	if *quick {
		scale = bench.Quick
	}
	if *laps > 0 {
		scale.Laps = *laps
	}
	var raw, table bytes.Buffer
	if err := bench.RecordMachine(&raw); err != nil {
		return err
	}
	verdicts, err := race(ctx, scale, wanted, &raw)
	if err != nil {
		return err
	}
	if err := bench.WriteTable(&table, verdicts); err != nil {
		return err
	}
	if *show {
		_, _ = os.Stdout.Write(raw.Bytes())
	}
	if *markdown {
		err = bench.WriteMarkdown(os.Stdout, verdicts)
	} else {
		_, err = os.Stdout.Write(table.Bytes())
	}
	if err != nil {
		return err
	}
	if *results == "" && !*quick && *only == "" {
		*results = usualResults()
	}
	if *results == "" {
		return before.compare(ctx, scale, raw.Bytes())
	}
	kept, err := keep(*results, raw.Bytes(), table.Bytes())
	if err != nil {
		return err
	}
	return kept.compared(before.compare(ctx, scale, raw.Bytes()))
}

// usualResults is where a full run keeps its samples: nowhere if they are not those of a commit.
func usualResults() string {
	commit := bench.Commit()
	if !strings.HasSuffix(commit, "-dirty") {
		return "results"
	}
	fmt.Fprintf(os.Stderr, "not kept: the tree is not that of a commit (%s); -results DIR keeps it elsewhere\n", commit)
	return ""
}

// race runs the races whose name is wanted and writes their samples to raw.
func race(ctx context.Context, scale bench.Scale, wanted *regexp.Regexp, raw *bytes.Buffer) ([]bench.Verdict, error) {
	var verdicts []bench.Verdict
	for _, r := range bench.Races() {
		if !wanted.MatchString(r.Name) {
			continue
		}
		start := time.Now()
		results, err := r.Run(ctx, scale)
		if bench.IsMissing(err) && os.Getenv("CI") == "" {
			fmt.Fprintf(os.Stderr, "%-24s skipped: %v\n", r.Name, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "%-24s %5.1f s\n", r.Name, time.Since(start).Seconds())
		if err := bench.Record(raw, r.Name, results); err != nil {
			return nil, err
		}
		for _, row := range r.Rows {
			verdicts = append(verdicts, row.Judge(results))
		}
	}
	return verdicts, nil
}
