//go:build unix

// Command mutants shows that the tests of the promises can fail: it puts one fault at a time into the code, a line or
// two each, and runs the tests that must find it. A fault that they do not find has survived, and the exit code is 1.
//
//	go run ./internal/mutants
//	go run ./internal/mutants -only G6
//	go run ./internal/mutants -list
//
// The code stays as it is: the go command is given an overlay, and clients in other languages are tested in a copy. Run
// it in the root of the repository, after scripts/sdk-typescript.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// mutant is one fault.
type mutant struct {
	name string
	// rule is the guarantee (G1 to G9), the sentence of reprise.Store with "must", or the row that the fault breaks.
	rule string
	// file is patterns of names of files, with spaces between.
	file string
	// old is in those files exactly once, and new takes its place.
	old, new string
	// pkg and run are the tests that must fail, as for go test. For clients in other languages see sdk.
	pkg, run string
	// torture is the arguments of internal/torture, for a fault that the checker from outside must find.
	torture string

	patience time.Duration // with its tests
}

func main() {
	only := flag.String("only", "", "regular expression for names and rules")
	list := flag.Bool("list", false, "list the mutants and end")
	atOnce := flag.Int("j", max(1, runtime.NumCPU()), "how many are tested at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := test(ctx, *only, *list, *atOnce)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1) // stop has been called
	}
}

func all() []mutant {
	return slices.Concat(engineMutants, rowMutants, replicaMutants, storeMutants, durableMutants, fullDiskMutants,
		logIndexMutants, survivorMutants, serverMutants, clientMutants, identityMutants, isolationMutants,
		operationMutants, terminalMutants, interpreterMutants, faceMutants, relayMutants, quotaMutants,
		boundMutants, typeScriptMutants, pythonMutants, outsideMutants)
}

func test(ctx context.Context, only string, list bool, atOnce int) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range all() {
		if wanted.MatchString(m.name + " " + m.rule) {
			chosen = append(chosen, m)
		}
	}
	if list {
		for _, m := range chosen {
			fmt.Printf("%-45s %-60s %s\n", m.name, m.rule, m.command())
		}
		return nil
	}
	if slices.ContainsFunc(chosen, func(m mutant) bool { s, _ := m.sdk(); return s != nil }) {
		defer removeTools()
	}
	began := time.Now()
	took, err := checkUnchanged(ctx, chosen, atOnce)
	if err != nil {
		return err
	}
	fmt.Printf("the tests pass without a fault (%.0fs)\n", time.Since(began).Seconds())
	for i := range chosen {
		chosen[i].patience = perMutant + slower*took.of(&chosen[i])
	}
	return report(chosen, testAll(ctx, chosen, atOnce), began)
}

// command is what must fail.
func (m *mutant) command() string {
	if m.torture != "" {
		return "go run ./internal/torture " + m.torture
	}
	if s, _ := m.sdk(); s != nil {
		return fmt.Sprintf("%s: %s", m.pkg, m.run)
	}
	return fmt.Sprintf("go test %s -run '%s'", m.pkg, m.run)
}

// noSymbols leaves out what debuggers need: a binary is linked for each mutant, and that is a quarter of the work.
const noSymbols = "-ldflags=-s -w"

// result is what has become of a mutant.
type result struct {
	verdict string // killed, survived, or why it could not be tested
	by      string
	took    time.Duration
}

const (
	killed   = "killed"
	survived = "SURVIVED"
)

// testAll tests the mutants, and those that need the machine for themselves at the end.
func testAll(ctx context.Context, chosen []mutant, atOnce int) []result {
	results := make([]result, len(chosen))
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range chosen {
		if chosen[i].torture == "" {
			slots <- struct{}{}
			wg.Go(func() {
				results[i] = testOne(ctx, &chosen[i])
				tell(&chosen[i], &results[i])
				<-slots
			})
		}
	}
	wg.Wait()
	for i := range chosen {
		if chosen[i].torture != "" {
			results[i] = testOne(ctx, &chosen[i])
			tell(&chosen[i], &results[i])
		}
	}
	return results
}

func tell(m *mutant, r *result) {
	fmt.Printf("%-9s %-45s %5.1fs  %s\n", r.verdict, m.name, r.took.Seconds(), r.by)
}

// testOne applies a mutant and runs its tests.
func testOne(ctx context.Context, m *mutant) result {
	began := time.Now()
	verdict, by, err := tryOne(ctx, m)
	if err != nil {
		verdict, by = "ERROR", err.Error()
	}
	return result{verdict, by, time.Since(began)}
}

// Tests of a mutant that run for perMutant, and slower times as long as without a fault, have found it: they hang. A
// busy machine makes all of them slow.
const (
	perMutant = 30 * time.Second
	slower    = 5
)

func tryOne(ctx context.Context, m *mutant) (verdict, by string, err error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // a server of a test runs as another user, in a folder of its own
		return "", "", err
	}
	if s, file := m.sdk(); s != nil {
		return s.try(ctx, m, dir, file)
	}
	overlay, err := m.apply(dir)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, m.patience+10*time.Minute) // with the build, on a busy machine
	defer cancel()
	args := []string{
		"test", "-vet=off", noSymbols, "-count=1", "-failfast", "-timeout", m.patience.String(), m.pkg, "-run", m.run,
	}
	if m.torture != "" {
		args = append([]string{"run", "./internal/torture"}, strings.Fields(m.torture)...)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+overlay, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err == nil {
		return survived, m.command(), nil
	}
	return judge(m, out)
}

var (
	failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	broken  = regexp.MustCompile(`violations (\d+)`)
)

// judge tells tests that have failed from a build that has.
func judge(m *mutant, out []byte) (verdict, by string, err error) {
	if m.torture != "" {
		if found := broken.FindSubmatch(out); found != nil && string(found[1]) != "0" {
			return killed, m.command() + ": " + string(found[0]), nil
		}
		return "", "", fmt.Errorf("%s: %s", m.command(), out)
	}
	var names []string
	for _, found := range failure.FindAllSubmatch(out, -1) {
		name := string(found[1])
		names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(name, n+"/") })
		names = append(names, name)
	}
	switch {
	case len(names) > 0:
		return killed, strings.Join(names[:min(3, len(names))], ", "), nil
	case bytes.Contains(out, []byte("test timed out")):
		return killed, m.run + " (it hangs)", nil
	case bytes.Contains(out, []byte("panic:")) || bytes.Contains(out, []byte("fatal error:")):
		return killed, m.run + " (it panics)", nil
	}
	return "", "", fmt.Errorf("no test has failed: %s", out)
}

// apply writes the file with the fault and the overlay that puts it in place, both into dir.
func (m *mutant) apply(dir string) (overlay string, err error) {
	path, text, err := m.find()
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, filepath.Base(path))
	if err := os.WriteFile(mutated, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// find finds the one file with the old text, and the one place in it.
func (m *mutant) find() (path string, text []byte, err error) {
	places := 0
	for pattern := range strings.FieldsSeq(m.file) {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return "", nil, err
		}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				return "", nil, err
			}
			if n := bytes.Count(content, []byte(m.old)); n > 0 {
				places += n
				path, text = name, content
			}
		}
	}
	if places != 1 {
		return "", nil, fmt.Errorf("%s has the old text %d times: %s", m.file, places, m.old)
	}
	path, err = filepath.Abs(path)
	return path, text, err
}

func report(chosen []mutant, results []result, began time.Time) error {
	counts := map[string]int{}
	for i := range results {
		counts[results[i].verdict]++
	}
	fmt.Printf("%d mutants: %d killed, %d survived, %d errors, %.0fs\n",
		len(chosen), counts[killed], counts[survived], counts["ERROR"], time.Since(began).Seconds())
	if counts[killed] != len(chosen) {
		return errors.New("not every mutant was killed")
	}
	return nil
}
