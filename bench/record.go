package bench

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// Record writes the raw samples in the format of Go benchmarks, one line a
// lap, so that benchstat compares two files. Machine and commit stand above.
func Record(w io.Writer, race string, results []Result) error {
	out := bufio.NewWriter(w)
	for _, r := range results {
		for _, s := range r.Samples {
			fmt.Fprintf(out, "Benchmark%s/%s 1", race, r.Contender)
			for _, unit := range slices.Sorted(maps.Keys(s)) {
				fmt.Fprintf(out, " %g %s", s[unit], unit)
			}
			fmt.Fprintln(out)
		}
	}
	return out.Flush()
}

// RecordMachine writes what the samples were measured on and of which commit.
func RecordMachine(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%sgo: %s\nkernel: %s\ncommit: %s\n\n", machine(), runtime.Version(), kernel(), Commit())
	return err
}

// machine is what the results of two runs must have in common to be compared.
func machine() string {
	return fmt.Sprintf("goos: %s\ngoarch: %s\ncpu: %s\ncpus: %d\n",
		runtime.GOOS, runtime.GOARCH, cpuModel(), runtime.NumCPU())
}

// Commit is the commit of the working tree, with "-dirty" if the tree has changes.
func Commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
