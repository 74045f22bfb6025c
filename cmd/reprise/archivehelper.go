package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"reprise/internal/archive/remote"
)

// archiveHelper is the name of the program that serves archives s3: and kafka:.
const archiveHelper = "reprise-archive"

// startArchiveHelper opens an archive s3: or kafka: through the program for those.
func startArchiveHelper(ctx context.Context, url string) (*remote.Helper, error) {
	program, err := findArchiveHelper(ctx)
	if err != nil {
		return nil, err
	}
	return remote.Start(ctx, program, url)
}

// findArchiveHelper returns the path of the program: the one that REPRISE_ARCHIVE_HELPER names, the one in the folder
// of this program, one that "go run" of this program has the sources for, or one in PATH.
func findArchiveHelper(ctx context.Context) (string, error) {
	if named := os.Getenv("REPRISE_ARCHIVE_HELPER"); named != "" {
		return named, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), archiveHelper)
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	if isGoRun(self) {
		return buildArchiveHelper(ctx)
	}
	if found, err := exec.LookPath(archiveHelper); err == nil {
		return found, nil
	}
	return "", usage("archives s3: and kafka: need the program %s, which is not in %s: a release has it beside reprise, and"+
		" in a checkout \"go build -o %s/ ./cmd/...\" builds both", archiveHelper, filepath.Dir(self),
		filepath.Dir(self))
}

// isGoRun reports whether program lies where "go run" puts what it runs, for as long as it runs.
func isGoRun(program string) bool {
	return strings.Contains(filepath.ToSlash(program), "/go-build") && filepath.Base(filepath.Dir(program)) == "exe"
}

// buildArchiveHelper builds the helper of the sources that this program was built of. It belongs to "go run" alone: a
// program that stays does not trust a path in it, which may belong to another user on another machine.
func buildArchiveHelper(ctx context.Context) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	sources := filepath.Join(filepath.Dir(file), "..", archiveHelper)
	if _, err := os.Stat(sources); !ok || err != nil {
		return "", usage("archives s3: and kafka: need the program %s; build it with \"go build ./cmd/%[1]s\", and set"+
			" REPRISE_ARCHIVE_HELPER to its path", archiveHelper)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(cache, "reprise", archiveHelper)
	fmt.Fprintf(os.Stderr, "reprise: building %s, which takes a minute the first time\n", archiveHelper)
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir, build.Stdout, build.Stderr = sources, os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", errors.Join(fmt.Errorf("%s could not be built: %w", archiveHelper, err), context.Cause(ctx))
	}
	return program, nil
}
