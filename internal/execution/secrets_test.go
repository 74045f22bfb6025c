package execution_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/execution"
	"reprise/store/memstore"
)

const theSecret = "s3cr3t-value-0123456789"

// named makes named secrets of a tenant, with the mode 0600.
func named(t *testing.T, of reprise.Tenant, values map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	folder := filepath.Join(dir, string(of))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestSecretsReachTheCommandAlone: the value is in the environment of the command, and nowhere in what is kept of it;
// in its output too where that is asked for.
func TestSecretsReachTheCommandAlone(t *testing.T) {
	t.Parallel() // it waits most of the time
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{
		Secrets: named(t, tenant, map[string]string{"token": theSecret + "\n", "other": "another-one"}),
	})
	// In pieces, with pauses that let each be read alone.
	command := `printf %s "$TOKEN" | wc -c; for part in s3cr3t- value- 0123456789; do printf %s $part; sleep 0.2; done; echo " $TOKEN" >&2`
	req := execution.Request{Command: command, Secrets: map[string]string{"TOKEN": "token"}}
	x := start(t, h, req)
	wantOutcome(t, finish(t, h, x.ID), execution.Exited, 0, "")
	if got := string(output(t, h, x.ID, execution.Stdout)); got != "23\n"+theSecret {
		t.Errorf("stdout %q", got)
	}
	req.MaskSecrets = true
	x = start(t, h, req)
	wantOutcome(t, finish(t, h, x.ID), execution.Exited, 0, "")
	if got := string(output(t, h, x.ID, execution.Stdout)); got != "23\n***" {
		t.Errorf("stdout %q", got)
	}
	if got := string(output(t, h, x.ID, execution.Stderr)); got != " ***\n" {
		t.Errorf("stderr %q", got)
	}
	page, err := log.List(t.Context(), reprise.ListQuery{Tenant: tenant, Namespace: "execution:", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Streams) != 2 {
		t.Fatalf("%d streams", len(page.Streams))
	}
	for _, info := range page.Streams {
		if bytes.Contains(info.Config.Meta, []byte("s3cr3t-value")) ||
			!bytes.Contains(info.Config.Meta, []byte("TOKEN")) {
			t.Errorf("the configuration is %s", info.Config.Meta)
		}
	}
	for _, e := range follow(t, h, x.ID) {
		if strings.Contains(string(e.Data), "s3cr3t-value") {
			t.Errorf("the event %s has the secret: %s", e.Type, e.Data)
		}
	}
}

func TestSecretsThatCannotBeUsed(t *testing.T) {
	dir := named(t, tenant, map[string]string{"token": theSecret, "short": "abc", "nul": "a\x00bcd"})
	folder := filepath.Join(dir, string(tenant))
	for _, err := range []error{
		os.WriteFile(filepath.Join(folder, "open"), []byte(theSecret), 0o644),
		os.Chmod(filepath.Join(folder, "open"), 0o644),
		os.Mkdir(filepath.Join(folder, "folder"), 0o700),
		os.Symlink("/etc/passwd", filepath.Join(folder, "outside")),
		os.WriteFile(filepath.Join(dir, "above"), []byte(theSecret), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t, execution.Options{Secrets: dir})
	for _, tt := range []struct {
		variable, name string
		mask           bool
		field          string
	}{
		{"TOKEN", "unknown", false, "secrets"},
		{"TOKEN", "open", false, "secrets"},
		{"TOKEN", "folder", false, "secrets"},
		{"TOKEN", "outside", false, "secrets"},
		{"TOKEN", "nul", false, "secrets"},
		{"TOKEN", "../above", false, "secrets"},
		{"TOKEN", "..", false, "secrets"},
		{"TOKEN", "", false, "secrets"},
		{"A=B", "token", false, "secrets"},
		{"", "token", false, "secrets"},
		{"GIVEN", "token", false, "secrets"},
		{"TOKEN", "short", true, "mask_secrets"},
	} {
		_, _, err := h.Start(within(t), tenant, execution.Request{
			Command: "true", Env: map[string]string{"GIVEN": "x"},
			Secrets: map[string]string{tt.variable: tt.name}, MaskSecrets: tt.mask,
		})
		if e, ok := errors.AsType[*execution.FieldError](err); !ok || e.Field != tt.field {
			t.Errorf("%q from %q: %v", tt.variable, tt.name, err)
		} else if strings.Contains(err.Error(), theSecret) {
			t.Errorf("the error has the secret: %v", err)
		}
	}
	use := execution.Request{Command: "true", Secrets: map[string]string{"TOKEN": "token"}}
	_, _, err := h.Start(within(t), "another", use)
	if _, ok := errors.AsType[*execution.FieldError](err); !ok {
		t.Errorf("the secret of another tenant: %v", err)
	}
	if _, _, err := newHost(t, execution.Options{}).Start(within(t), tenant, use); err == nil {
		t.Error("a server without secrets has one")
	}
	if _, _, err := h.Start(within(t), tenant, execution.Request{Command: "true", MaskSecrets: true}); err == nil {
		t.Error("there is nothing to mask")
	}
	use.ID = "attached"
	if _, _, err := h.Start(within(t), tenant, use); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(folder, "token")); err != nil {
		t.Fatal(err)
	}
	if _, created, err := h.Start(within(t), tenant, use); err != nil || created { // it is there already
		t.Errorf("the same again: created %t, %v", created, err)
	}
	if _, err := execution.ReadSecret(dir, tenant, "token"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that was removed: %v", err)
	}
}

// TestSecretIsReadWhenCommandStarts: a secret is read when the command starts, not when it is queued.
func TestSecretIsReadWhenCommandStarts(t *testing.T) {
	dir := named(t, tenant, map[string]string{"token": "before"})
	h := newHost(t, execution.Options{Secrets: dir, MaxRunning: 1})
	first := start(t, h, holds)
	use := execution.Request{Command: `echo "$TOKEN"`, Secrets: map[string]string{"TOKEN": "token"}}
	changed, gone := start(t, h, use), execution.Execution{}
	file := filepath.Join(dir, string(tenant), "token")
	if err := os.WriteFile(file, []byte("after"), 0o600); err != nil {
		t.Fatal(err)
	}
	over(t, h, first.ID)
	finish(t, h, changed.ID)
	if got := string(output(t, h, changed.ID, execution.Stdout)); got != "after\n" {
		t.Errorf("stdout %q", got)
	}
	second := start(t, h, holds)
	gone = start(t, h, use)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	over(t, h, second.ID)
	x := finish(t, h, gone.ID)
	if x.Outcome != execution.FailedToStart || !strings.Contains(x.Error, `no secret "token"`) {
		t.Errorf("%s: %s", x.Outcome, x.Error)
	}
}
