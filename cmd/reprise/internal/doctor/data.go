package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"reprise/internal/datadir"
)

// existing is the deepest directory on the way to path that is there.
func existing(path string) string {
	for {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		parent := filepath.Dir(path)
		if parent == path {
			return path
		}
		path = parent
	}
}

// checkData writes a file where the data directory is, or would be made.
func checkData(path string) Finding {
	const name = "data directory"
	const advice = "Make it writable for this user, or name another with --data."
	path, err := filepath.Abs(path)
	if err != nil {
		return fail(name, advice, "%v", err)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return fail(name, advice, "%s is a file", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fail(name, advice, "%v", err)
	}
	made := err == nil
	f, err := os.CreateTemp(existing(path), ".doctor-*")
	if err != nil {
		return fail(name, advice, "%v", err)
	}
	_, err = f.WriteString("reprise")
	if err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		return fail(name, advice, "%v", err)
	}
	switch {
	case !made:
		return ok(name, "%s will be made on the first start", path)
	case info.Mode().Perm()&0o077 != 0:
		return warn(name, "chmod 700 it.", "%s is open to others (%v)", path, info.Mode())
	}
	return ok(name, "%s is writable", path)
}

// checkSpace looks at what is free.
func checkSpace(path string) Finding {
	const (
		name   = "disk space"
		little = 1 << 30
		none   = 64 << 20
		advice = "Make room; while there is none, appends fail and commands wait with their output."
	)
	free, err := datadir.Free(existing(path))
	if err != nil {
		return warn(name, "", "not known: %v", err)
	}
	switch {
	case free < none:
		return fail(name, advice, "%d MiB free", free>>20)
	case free < little:
		return warn(name, advice, "%d MiB free", free>>20)
	}
	return ok(name, "%d GiB free", free>>30)
}

// checkFiles looks at how many files may be open: a reader takes one.
func checkFiles() Finding {
	const name = "open files"
	const few = 4096
	limit, err := maxFiles()
	if err != nil {
		return warn(name, "", "not known: %v", err)
	}
	if limit < few {
		return warn(name, "Raise it with ulimit -n, or LimitNOFILE= of systemd.", "at most %d, each reader takes one",
			limit)
	}
	return ok(name, "at most %d", limit)
}
