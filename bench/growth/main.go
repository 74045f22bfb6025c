// Command growth measures how costs grow with what is kept, and prints a table for each kind of growth.
//
//	go run ./growth                    1 to 100,000 kept executions, streams, events and neighbours
//	go run ./growth -most 1000000      takes much longer
//	go run ./growth -only Kept -laps 5
//	go run ./growth -quick             that everything runs
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
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
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	most := flag.Int("most", 100_000, "how many things are kept at most")
	only := flag.String("only", "", "regular expression of the races to run")
	laps := flag.Int("laps", 3, "laps of each race")
	quick := flag.Bool("quick", false, "run everything once and small")
	show := flag.Bool("raw", false, "print the raw samples too")
	plots := flag.String("plots", "", "folder for a plot in SVG of each race and store; default: none")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	scale := bench.Scale{Laps: *laps}
	if *quick {
		scale, *most = bench.Quick, 1000
	}
	var raw bytes.Buffer
	if err := bench.RecordMachine(&raw); err != nil {
		return err
	}
	for _, g := range bench.Growths(*most) {
		if !wanted.MatchString(g.Name) {
			continue
		}
		start := time.Now()
		results, err := g.Run(ctx, scale)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%-24s %5.1f s\n", g.Name, time.Since(start).Seconds())
		if err := bench.Record(&raw, g.Name, results); err != nil {
			return err
		}
		fmt.Println()
		if err := bench.WriteGrowth(os.Stdout, &g, results); err != nil {
			return err
		}
		if *plots != "" {
			if err := plot(*plots, &g, results); err != nil {
				return err
			}
		}
	}
	if *show {
		_, err = os.Stdout.Write(raw.Bytes())
	}
	return err
}

// plot writes the plots of a race to a folder.
func plot(dir string, g *bench.Growth, results []bench.Result) error {
	for _, store := range bench.GrowthStores {
		var text bytes.Buffer
		if err := bench.WriteGrowthPlot(&text, g, store, results); err != nil {
			return err
		}
		name := strings.ToLower(g.Name) + "-" + store + ".svg"
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
