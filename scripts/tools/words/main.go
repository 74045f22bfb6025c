// Command words finds phrases that cost readers a second look, in comments, in texts of programs and on pages:
//
//	go -C scripts/tools run ./words ../..            fail if a folder has more than its bound
//	go -C scripts/tools run ./words -list ../..      list what is found, by file and line
//	go -C scripts/tools run ./words -update ../..    lower bounds to what is found
//	go -C scripts/tools run ./words -count ../..     count the words of the pages
//
// A folder may have 5 findings in 10,000 words. bounds.tsv has the folders that have more, each with a number that
// only
// falls.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxRate is how many findings a folder may have in 10,000 words without being in bounds.tsv.
const maxRate = 5

const boundsFile = "words/bounds.tsv"

func main() {
	show := flag.Bool("list", false, "list what is found")
	update := flag.Bool("update", false, "lower the bounds to what is found")
	count := flag.Bool("count", false, "count the words of the pages")
	flag.Parse()
	folders, err := read(flag.Arg(0))
	if err == nil {
		switch {
		case *count:
			countPages(folders)
		case *show:
			list(folders)
		default:
			err = compare(folders, *update)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
}

// compare fails if a folder has more findings than it may, or, with update, lowers the bounds to what is found.
func compare(folders map[string]*folder, update bool) error {
	text, err := os.ReadFile(boundsFile)
	if err != nil {
		return err
	}
	bounds := map[string]int{}
	for line := range strings.Lines(string(text)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if bounds[name], err = strconv.Atoi(number); err != nil {
			return fmt.Errorf("%s: %w", boundsFile, err)
		}
	}
	var kept strings.Builder
	above := 0
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		f := folders[name]
		bound, listed := bounds[name]
		if update && listed {
			bound = min(bound, len(f.found))
		}
		if bound > f.free() {
			fmt.Fprintf(&kept, "%s\t%d\n", name, bound)
		}
		if len(f.found) > max(bound, f.free()) {
			above++
			fmt.Fprintf(os.Stderr, "%s has %d findings in %d words, may have %d; -list shows them\n",
				name, len(f.found), f.words, max(bound, f.free()))
		}
	}
	if update {
		return os.WriteFile(boundsFile, []byte(kept.String()), 0o644)
	}
	if above > 0 {
		return fmt.Errorf("%d folders have too many findings", above)
	}
	return nil
}

func list(folders map[string]*folder) {
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		f := folders[name]
		fmt.Printf("%s: %d in %d words, %.0f in 10,000\n", name, len(f.found), f.words, f.rate())
		for _, line := range f.found {
			fmt.Println("\t" + line)
		}
	}
}

// countPages prints the words of what users read and of the rest.
func countPages(folders map[string]*folder) {
	sums := map[string]int{}
	for _, f := range folders {
		for path, words := range f.pages {
			sums[kind(filepath.ToSlash(path))] += words
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Printf("%-40s %6d\n", name, sums[name])
	}
}

// kind says for whom a page is.
func kind(path string) string {
	switch {
	case isGenerated(path):
		return "generated reference"
	case strings.HasPrefix(path, "docs/internals/decisions/"):
		return "decisions"
	case strings.HasPrefix(path, "docs/internals/"), path == "CONTRIBUTING.md", strings.HasPrefix(path, ".github/"):
		return "internals"
	case strings.HasPrefix(path, "docs/"), path == "README.md", path == "CHANGELOG.md":
		return "pages for users"
	}
	return "beside code"
}
