package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMain is lint itself if it is run as such.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "lint" {
		os.Args = slices.Delete(os.Args, 1, 2)
		main()
	}
	os.Exit(m.Run())
}

// TestEachPlantedFaultIsFound: lint finds the fault of each line of testdata that has one, and nothing else.
func TestEachPlantedFaultIsFound(t *testing.T) {
	dir := filepath.Join("testdata", "src")
	want := map[string]int{}
	files, err := filepath.Glob(filepath.Join(dir, "faults", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("no faults are planted", err)
	}
	mark := regexp.MustCompile(`want ([\w ]+)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if m := mark.FindStringSubmatch(line); m != nil {
				for name := range strings.FieldsSeq(m[1]) {
					want[fmt.Sprintf("%s:%d %s", filepath.Base(file), i+1, name)]++
				}
			} else if strings.HasSuffix(line, "//nolint:nilerr") { // which can have no mark: it lacks a reason
				want[fmt.Sprintf("%s:%d nilerr", filepath.Base(file), i+1)]++
				want[fmt.Sprintf("%s:%d nolint", filepath.Base(file), i+1)]++
			}
		}
	}
	cmd := exec.Command(os.Args[0], "lint", "-checks", strings.Join(checks(t), ","), "-f", "json", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		t.Error("its status is 0")
	}
	got := map[string]int{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var found struct {
			Code     string
			Location struct {
				File string
				Line int
			}
		}
		if err := decoder.Decode(&found); err != nil {
			t.Fatalf("%v: %s%s", err, out, &stderr)
		}
		got[fmt.Sprintf("%s:%d %s", filepath.Base(found.Location.File), found.Location.Line, found.Code)]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s\n%s", list(got), list(want), &stderr)
	}
}

// TestDisabledChecksExist: each check that staticcheck.conf disables exists and has a reason.
func TestDisabledChecksExist(t *testing.T) {
	out, err := exec.Command(os.Args[0], "lint", "-list-checks").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range checks(t)[1:] {
		if !regexp.MustCompile(`(?m)^` + strings.TrimPrefix(check, "-") + `\b`).Match(out) {
			t.Errorf("%s is no check", check)
		}
	}
}

// checks are those of staticcheck.conf.
func checks(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "staticcheck.conf"))
	if err != nil {
		t.Fatal(err)
	}
	list := []string{"all"}
	for _, m := range regexp.MustCompile(`(?m)^\t"(-\w+)", +# \S`).FindAllSubmatch(text, -1) {
		list = append(list, string(m[1]))
	}
	if off := bytes.Count(text, []byte("\t\"-")); off == 0 || off != len(list)-1 {
		t.Fatalf("staticcheck.conf turns %d checks off, %d of them with a reason", off, len(list)-1)
	}
	return list
}

func list(found map[string]int) string { return strings.Join(slices.Sorted(maps.Keys(found)), "\n") }
