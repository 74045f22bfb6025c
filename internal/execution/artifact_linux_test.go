package execution_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/isolation"
	"reprise/store/memstore"
)

// artifacts returns the paths and the contents of the kept files of an execution.
func artifacts(t *testing.T, h *execution.Host, x execution.Execution) (paths []string, contents string) {
	t.Helper()
	var text bytes.Buffer
	for _, file := range x.Artifacts {
		a, err := h.Artifact(within(t), tenant, x.ID, file.Path)
		if err == nil {
			_, err = a.Copy(within(t), &text, 0, file.Size)
		}
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, file.Path)
	}
	return paths, text.String()
}

// TestArtifactsAreOfDirectoryAtStart: a command that makes the name of its working directory a link to a hidden one, or
// a FIFO, does not move the directory whose files are kept, and its end comes.
func TestArtifactsAreOfDirectoryAtStart(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		secrets, dir := secretDir(t), t.TempDir()
		opts.Isolation = isolation.Config{Masks: masks(t, secrets)}
		h := newHost(t, opts)
		for name, replace := range map[string]string{
			"link": "ln -sfn " + secrets + " $PWD",
			"fifo": "rm $PWD; mkfifo $PWD",
			"none": "rm $PWD",
		} {
			if err := os.Mkdir(filepath.Join(dir, "real-"+name), 0o700); err != nil {
				t.Fatal(err)
			}
			cwd := filepath.Join(dir, name)
			if err := os.Symlink("real-"+name, cwd); err != nil {
				t.Fatal(err)
			}
			x := start(t, h, execution.Request{
				Command: "PWD=" + cwd + "; echo own >token; " + replace, Cwd: cwd, Artifacts: []string{"token"},
			})
			x = finish(t, h, x.ID)
			wantOutcome(t, x, execution.Exited, 0, "")
			if paths, text := artifacts(t, h, x); !slices.Equal(paths, []string{"token"}) || text != "own\n" {
				t.Errorf("%s: files %q with %q, notes %q", name, paths, text, x.ArtifactNotes)
			}
		}
		link := filepath.Join(dir, "hidden")
		if err := os.Symlink(secrets, link); err != nil {
			t.Fatal(err)
		}
		x := start(t, h, execution.Request{Command: "true", Isolation: "none", Cwd: link, Artifacts: []string{"token"}})
		x = finish(t, h, x.ID)
		if len(x.Artifacts) > 0 || !strings.Contains(strings.Join(x.ArtifactNotes, "\n"), "is hidden from commands") {
			t.Errorf("of a hidden directory: %+v, notes %q", x.Artifacts, x.ArtifactNotes)
		}
	})
}

// TestHiddenDirectoryThatWasRenamedHasNoArtifacts: a hidden directory stays hidden under the name that it gets after
// the start of the server.
func TestHiddenDirectoryThatWasRenamedHasNoArtifacts(t *testing.T) {
	for _, c := range []struct{ when, level string }{
		{"before the run", ""}, {"during the run", ""}, {"before the run", "none"}, {"during the run", "none"},
	} {
		when := c.when
		t.Run(when+" "+c.level, func(t *testing.T) {
			base := t.TempDir()
			above, moved := filepath.Join(base, "above"), filepath.Join(base, "moved")
			secrets := filepath.Join(above, "data")
			if err := os.MkdirAll(secrets, 0o700); err != nil {
				t.Fatal(err)
			}
			h := newHost(t, execution.Options{Isolation: isolation.Config{Masks: masks(t, secrets)}})
			rename := func() {
				t.Helper()
				for _, err := range []error{
					os.WriteFile(filepath.Join(secrets, "token"), []byte("secret"), 0o600),
					os.Rename(above, moved), os.MkdirAll(secrets, 0o700),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if when == "before the run" {
				rename()
			}
			x := start(t, h, execution.Request{
				Command: "echo begun; while [ ! -e go ]; do sleep 0.01; done", Cwd: base,
				Isolation: c.level, Artifacts: []string{"moved/data/token", "moved"},
			})
			await(t, h, x.ID, "begun")
			if when == "during the run" {
				rename()
			}
			if err := os.WriteFile(filepath.Join(base, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			x = finish(t, h, x.ID)
			wantOutcome(t, x, execution.Exited, 0, "")
			if len(x.Artifacts) > 0 {
				t.Errorf("kept: %+v", x.Artifacts)
			}
		})
	}
}

// TestNextHostCollectsFromSameDirectory: a Host collects the artifacts of a run that an earlier Host has left if the
// working directory is the same, and otherwise says that it is not.
func TestNextHostCollectsFromSameDirectory(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	opts := execution.Options{RunsDir: t.TempDir()}
	same, other := t.TempDir(), t.TempDir()
	const waits = "echo own >token; echo begun; while [ ! -e go ]; do sleep 0.01; done"
	leave(t, log, opts, func(h *execution.Host) {
		for id, dir := range map[string]string{"same": same, "other": other} {
			start(t, h, execution.Request{ID: id, Command: waits, Cwd: dir, Artifacts: []string{"token"}})
			await(t, h, id, "begun")
		}
	})
	if err := os.Rename(other, other+"-old"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(other + "-old") })
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "token"), []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, log, opts)
	for _, dir := range []string{same, other + "-old"} {
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	x := finish(t, h, "same")
	if paths, text := artifacts(t, h, x); len(paths) != 1 || text != "own\n" {
		t.Errorf("files %q with %q, notes %q", paths, text, x.ArtifactNotes)
	}
	x = finish(t, h, "other")
	if len(x.Artifacts) > 0 || !strings.Contains(strings.Join(x.ArtifactNotes, "\n"), "is not the same") {
		t.Errorf("of another directory: %+v, notes %q", x.Artifacts, x.ArtifactNotes)
	}
}

// stuck is a store in which appends to streams of artifacts wait until let is closed.
type stuck struct {
	*memstore.Store
	reached, let chan struct{}
}

func (s *stuck) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	for i := range reqs {
		if strings.HasPrefix(reqs[i].Key.Name, "artifacts:") {
			select {
			case s.reached <- struct{}{}:
			default:
			}
			<-s.let
		}
	}
	return s.Store.Append(ctx, reqs)
}

// TestCancelEndsCollection: a cancellation ends a collection that is under way, and the execution keeps its outcome.
func TestCancelEndsCollection(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		store := &stuck{Store: memstore.New(nil), reached: make(chan struct{}, 1), let: make(chan struct{})}
		h := openHost(t, newLog(t, store, nil), opts)
		x := start(t, h, execution.Request{Command: "echo x >f; exit 3", Artifacts: []string{"f"}})
		select {
		case <-store.reached:
		case <-within(t).Done():
			t.Error("nothing is collected")
		}
		err := h.Cancel(within(t), tenant, x.ID)
		close(store.let)
		if err != nil {
			t.Fatal(err)
		}
		x = finish(t, h, x.ID)
		wantOutcome(t, x, execution.Exited, 3, "")
		if len(x.ArtifactNotes) != 1 || !strings.Contains(x.ArtifactNotes[0], "was cancelled while") {
			t.Errorf("files %+v, notes %q", x.Artifacts, x.ArtifactNotes)
		}
	})
}
