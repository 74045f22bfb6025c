package clienttest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"reprise/internal/clienttest"
)

// programs are the binary of reprise, which REPRISE_BIN may name, and the service of the Go client.
var programs struct{ reprise, service string }

func TestMain(m *testing.M) {
	heapAtStart = heap()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "clienttest-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		programs.reprise, programs.service = os.Getenv("REPRISE_BIN"), filepath.Join(dir, "goservice")
		build := exec.Command("go", "build", "-o", dir, "reprise/internal/clienttest/goservice")
		if programs.reprise == "" {
			programs.reprise = filepath.Join(dir, "reprise")
			build.Args = append(build.Args, "reprise/cmd/reprise")
		}
		if out, err := build.CombinedOutput(); err != nil {
			panic(string(out))
		}
		return m.Run()
	}())
}

// check runs some cases with the service.
func check(t *testing.T, only string, patience time.Duration, args ...string) *clienttest.Report {
	t.Helper()
	opts := &clienttest.Options{
		Program: programs.reprise, Command: append([]string{programs.service}, args...), Quick: true,
		Only: regexp.MustCompile(only), Patience: patience, Report: func(r clienttest.Result) { t.Logf("%+v", r) },
	}
	report, err := clienttest.Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestGoClientsPass(t *testing.T) {
	for _, args := range [][]string{nil, {"-sse"}} {
		t.Run(filepath.Join(args...), func(t *testing.T) {
			t.Parallel()
			report := check(t, "", 5*time.Minute, args...)
			skipped := 0
			for _, r := range report.Results {
				if r.Err != nil || r.Lost > 0 || r.Doubled > 0 {
					t.Errorf("%s: %d lost, %d doubled: %v", r.Case, r.Lost, r.Doubled, r.Err)
				}
				if r.Skipped != "" {
					skipped++
				}
			}
			if len(report.Results) != 34 || args == nil && skipped > 0 {
				t.Errorf("%d cases, of which %d are skipped", len(report.Results), skipped)
			}
		})
	}
}

// Each fault is found by the cases that are there for it.
func TestFaultyClientsFail(t *testing.T) {
	for fault, only := range map[string]string{
		"lose":      "cut at random|killed client|extremes",
		"double":    "cut at random|hostile data",
		"swap":      "cut at random",
		"garble":    "hostile data",
		"leak":      "stop",
		"impatient": "cut at every byte|bad answers|over TLS|silent heads",
		"patient":   "silence|silent heads|over TLS|held back",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			for _, r := range check(t, only, 20*time.Second, "-fault", fault).Results {
				if r.Err == nil {
					t.Errorf("%s passes", r.Case)
				}
				if fault == "lose" && r.Lost == 0 || fault == "double" && r.Doubled == 0 {
					t.Errorf("%s: %d lost, %d doubled", r.Case, r.Lost, r.Doubled)
				}
			}
		})
	}
}

func TestServiceWithoutAnswerIsAnError(t *testing.T) {
	for _, command := range [][]string{nil, {"/does/not/exist"}, {"true"}, {"echo", "hello"}} {
		opts := &clienttest.Options{Program: programs.reprise, Command: command, Only: regexp.MustCompile("ended")}
		if report, err := clienttest.Run(t.Context(), opts); err == nil {
			t.Errorf("%q: %+v", command, report)
		}
	}
}
