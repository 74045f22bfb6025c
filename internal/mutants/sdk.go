//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// sdk is a client in another language. Its mutants are built and tested in a copy of its folder. mutant.pkg is a file
// of its tests, or checkClient and a file of its folder that is a service; mutant.run is a regular expression for names
// of tests or of cases.
type sdk struct {
	folder string
	copied []string   // what the tests need of the folder
	linked string     // what they need too, and do not change
	build  [][]string // commands that run in the copy
	// tests is the command that runs the tests of a file, and writes a report in the form of JUnit.
	tests   func(file, run, report string) []string
	service []string // the command before the file of a service
}

// checkClient stands before the file of a service: the cases of "reprise check-client" are the tests.
const checkClient = "check-client "

const tsc = "node_modules/.bin/tsc"

// sdks are the clients in other languages.
var sdks = []sdk{
	{
		folder: "sdk/typescript",
		copied: []string{"src", "test", "package.json", "tsconfig.json", "tsconfig.test.json"},
		linked: "node_modules",
		build: [][]string{
			{tsc, "-p", "tsconfig.json", "--noUnusedLocals", "false", "--noUnusedParameters", "false"},
			{tsc, "-p", "tsconfig.test.json"},
		},
		tests: func(file, run, report string) []string {
			return []string{
				"node", "--test", "--test-reporter=junit", "--test-reporter-destination=" + report,
				"--test-name-pattern=" + run, "build/" + strings.TrimSuffix(file, ".ts") + ".js",
			}
		},
		service: []string{"node"},
	},
	{
		folder: "sdk/python",
		copied: []string{"src", "tests", "tools", "pyproject.toml"},
		build:  [][]string{{"python", "tools/unasync.py"}},
		tests: func(file, run, report string) []string {
			names := strings.ReplaceAll(run, "|", " or ")
			return []string{
				"python", "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=" + report, "-k", names, file,
			}
		},
		service: []string{"python"},
	},
}

// sdk returns the client in another language that m is a fault of, nil for Go, and the path of its tests there.
func (m *mutant) sdk() (s *sdk, path string) {
	for i := range sdks {
		path := strings.TrimPrefix(m.pkg, checkClient)
		if inside, ok := strings.CutPrefix(path, "./"+sdks[i].folder+"/"); ok {
			return &sdks[i], inside
		}
	}
	return nil, ""
}

// tools are what the tests of the clients in other languages need: a server, and a Python with the packages of
// the tests. They are made once.
var tools = sync.OnceValues(func() (t struct{ reprise, python string }, err error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return t, err
	}
	t.reprise = filepath.Join(dir, "reprise")
	if out, err := exec.Command("go", "build", "-o", t.reprise, "./cmd/reprise").CombinedOutput(); err != nil {
		return t, fmt.Errorf("build the server: %w: %s", err, out)
	}
	out, err := exec.Command("scripts/sdk-python", "env").Output()
	t.python = strings.TrimSpace(string(out))
	return t, err
})

// removeTools removes what tools has made.
func removeTools() {
	t, _ := tools()
	_ = os.RemoveAll(filepath.Dir(t.reprise))
}

// copyTo makes a copy of the client in dir, with the fault of m unless that is nil, and builds it.
func (s *sdk) copyTo(ctx context.Context, dir string, m *mutant) error {
	for _, name := range s.copied {
		if err := copyTree(filepath.Join(dir, name), filepath.Join(s.folder, name)); err != nil {
			return err
		}
	}
	if s.linked != "" {
		path, err := filepath.Abs(filepath.Join(s.folder, s.linked))
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return fmt.Errorf("%w; scripts/sdk-typescript installs it", err)
		}
		if err := os.Symlink(path, filepath.Join(dir, s.linked)); err != nil {
			return err
		}
	}
	if m != nil {
		path, text, err := m.find()
		if err != nil {
			return err
		}
		folder, err := filepath.Abs(s.folder)
		if err != nil {
			return err
		}
		path = filepath.Join(dir, strings.TrimPrefix(path, folder))
		if err := os.WriteFile(path, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
			return err
		}
	}
	for _, command := range s.build {
		if out, err := s.run(ctx, dir, command); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}

func copyTree(to, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// run runs a command in the copy in dir, and kills all that it has started when ctx is done.
func (s *sdk) run(ctx context.Context, dir string, command []string) ([]byte, error) {
	t, err := tools()
	if err != nil {
		return nil, err
	}
	command = slices.Clone(command)
	if at := slices.Index(command, "python"); at >= 0 {
		command[at] = t.python
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "REPRISE_BIN="+t.reprise, "REPRISE_BINARY="+t.reprise, "TMPDIR="+dir,
		"PYTHONPATH="+filepath.Join(dir, "src"), "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.CombinedOutput()
}

// outcome is what has become of tests: how long those took that passed, and the names of those that failed.
type outcome struct {
	passed map[string]time.Duration
	failed []string
}

// test runs tests in the copy in dir: the file, or the service behind checkClient, of pkg.
func (s *sdk) test(ctx context.Context, dir, pkg, file, run string) (o outcome, out []byte, err error) {
	if strings.HasPrefix(pkg, checkClient) {
		return s.checkClient(ctx, dir, file, run)
	}
	report := filepath.Join(dir, "report.xml")
	out, runErr := s.run(ctx, dir, s.tests(file, run, report))
	text, err := os.ReadFile(report)
	if err != nil {
		return o, out, errors.Join(runErr, err)
	}
	o, err = readJUnit(text)
	if err != nil || runErr != nil && len(o.failed) == 0 {
		return o, out, errors.Join(runErr, err)
	}
	return o, out, nil
}

// readJUnit reads a report in the form of JUnit.
func readJUnit(text []byte) (outcome, error) {
	o := outcome{passed: map[string]time.Duration{}}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return o, nil
		}
		if err != nil {
			return o, err
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "testcase" {
			continue
		}
		var c struct {
			Name    string    `xml:"name,attr"`
			Time    float64   `xml:"time,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		}
		if err := d.DecodeElement(&c, &start); err != nil {
			return o, err
		}
		switch {
		case c.Failure != nil || c.Error != nil:
			o.failed = append(o.failed, c.Name)
		case c.Skipped == nil:
			o.passed[c.Name] += time.Duration(c.Time * float64(time.Second))
		}
	}
}

// checkClient runs cases of the suite for clients.
func (s *sdk) checkClient(ctx context.Context, dir, file, run string) (o outcome, out []byte, err error) {
	t, err := tools()
	if err != nil {
		return o, nil, err
	}
	command := []string{t.reprise, "check-client", "--quick", "--patience", "20s", "--json", "--only", run, "--"}
	began := time.Now()
	out, runErr := s.run(ctx, dir, append(append(command, s.service...), file))
	var report struct {
		Results []struct{ Case, Problem, Skipped string }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return o, out, errors.Join(runErr, err)
	}
	o.passed = map[string]time.Duration{}
	for _, r := range report.Results {
		switch {
		case r.Problem != "":
			o.failed = append(o.failed, r.Case)
		case r.Skipped == "":
			o.passed[r.Case] = time.Since(began)
		}
	}
	return o, out, nil
}

// try runs the tests of a mutant in a copy in dir that has its fault.
func (s *sdk) try(ctx context.Context, m *mutant, dir, file string) (verdict, by string, err error) {
	if err := s.copyTo(ctx, dir, m); err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, m.patience)
	defer cancel()
	o, out, err := s.test(ctx, dir, m.pkg, file, m.run)
	switch {
	case len(o.failed) > 0:
		return killed, strings.Join(o.failed[:min(3, len(o.failed))], ", "), nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return killed, m.run + " (it hangs)", nil
	case err != nil:
		return "", "", fmt.Errorf("%w: %s", err, out)
	}
	return survived, m.command(), nil
}

// checkUnchanged runs tests of a file in a copy without a fault, where they must pass.
func (s *sdk) checkUnchanged(ctx context.Context, pkg, file, run string) (map[string]time.Duration, error) {
	dir, err := os.MkdirTemp("", "unchanged-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := s.copyTo(ctx, dir, nil); err != nil {
		return nil, err
	}
	o, out, err := s.test(ctx, dir, pkg, file, run)
	if err == nil && len(o.failed) > 0 {
		err = fmt.Errorf("%q", o.failed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s fails without a fault: %w: %s", pkg, err, out)
	}
	return o.passed, nil
}
