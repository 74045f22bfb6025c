// Package copytree copies directories to and from a server.
package copytree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"reprise"
	"reprise/client"
)

// tree copies a directory to or from the server, file by file. All local access goes through an os.Root, so that no
// link leads out of the directory.
type tree struct {
	server *client.Client
	opts   *client.TransferOptions
	root   *os.Root // of the local directory
	sum    Summary
	dirs   []directory // whose modes are set at the end, for some do not allow writing
}

// directory is a directory that was made, by its path below the top.
type directory struct{ rel, mode string }

// Summary is the result of a copy: what was copied, and what was left out.
type Summary struct {
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`
	Directories int    `json:"directories"`
	Unchanged   int    `json:"unchanged"`
	Skipped     []Skip `json:"skipped"`
}

// Skip is an entry that was not copied.
type Skip struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// String implements fmt.Stringer.
func (s *Summary) String() string {
	said := fmt.Sprintf("%d files (%d bytes) and %d directories copied, %d files unchanged",
		s.Files, s.Bytes, s.Directories, s.Unchanged)
	if len(s.Skipped) > 0 {
		said += fmt.Sprintf(", %d entries skipped", len(s.Skipped))
	}
	return said
}

func (t *tree) skip(name, reason string) {
	t.sum.Skipped = append(t.sum.Skipped, Skip{name, reason})
}

// copied counts a file.
func (t *tree) copied(file *client.File) {
	t.sum.Files++
	t.sum.Bytes += file.Size
}

// up copies the local directory to a path of the server.
func (t *tree) up(ctx context.Context, target string) error {
	err := fs.WalkDir(t.root.FS(), ".", func(rel string, e fs.DirEntry, err error) error {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			if _, err := t.server.MakeDirectory(ctx, path.Join(target, rel), ""); err != nil {
				return err
			}
			t.dirs = append(t.dirs, directory{rel, fmt.Sprintf("%04o", info.Mode().Perm())})
			t.sum.Directories++
			return nil
		case !info.Mode().IsRegular():
			t.skip(rel, "it is neither a file nor a directory")
			return nil
		}
		return t.upFile(ctx, rel, info, path.Join(target, rel))
	})
	for i := len(t.dirs) - 1; i >= 0 && err == nil; i-- {
		if p := path.Join(target, t.dirs[i].rel); strings.Contains(p, "/") { // a root belongs to the operator
			_, err = t.server.SetFileMode(ctx, p, t.dirs[i].mode)
		}
	}
	return err
}

// upFile copies a file to the server.
func (t *tree) upFile(ctx context.Context, rel string, info fs.FileInfo, target string) error {
	f, err := t.root.Open(filepath.FromSlash(rel))
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(now, info) {
		return errors.Join(fmt.Errorf("%s: %w", rel, client.ErrFileChanged), err)
	}
	sent := false
	opts := *t.opts
	opts.OnProgress = func(done, total int64) {
		sent = sent || done < total
		t.opts.OnProgress(done, total)
	}
	file, err := t.server.UploadFile(ctx, f, target, &opts)
	switch {
	case t.opts.Keep && errors.Is(err, reprise.ErrConflict):
		t.skip(rel, "it is there")
	case err != nil:
		return err
	case !sent && info.Size() > 0:
		t.sum.Unchanged++
	default:
		t.copied(&file)
	}
	return nil
}

// down copies a directory of the server into the existing local one. rel is "." at first.
func (t *tree) down(ctx context.Context, source, rel string) error {
	cursor := ""
	for {
		page, err := t.server.ListFiles(ctx, source, 1000, cursor)
		if err != nil {
			return err
		}
		for i := range page.Files {
			if err := t.downEntry(ctx, &page.Files[i], rel); err != nil {
				return err
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
}

func (t *tree) downEntry(ctx context.Context, file *client.File, dir string) error {
	source := file.FullPath()
	name := source[strings.LastIndexByte(source, '/')+1:]
	rel := filepath.Join(dir, name)
	switch {
	case name == "" || name == "." || name == ".." || !filepath.IsLocal(name) || filepath.Base(name) != name:
		t.skip(source, "its name cannot be used here")
		return nil
	case file.Type == "directory":
		if err := t.root.Mkdir(rel, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if info, err := t.root.Lstat(rel); err != nil || !info.IsDir() {
			return errors.Join(&fs.PathError{Op: "mkdir", Path: rel, Err: errors.New("something else is there")}, err)
		}
		t.dirs = append(t.dirs, directory{rel, file.Mode})
		t.sum.Directories++
		return t.down(ctx, source, rel)
	case file.Type != "file":
		t.skip(source, "it is a "+file.Type)
		return nil
	}
	return t.downFile(ctx, file, rel)
}

// downFile copies a file from the server. It is collected at the top of the local directory and moved to its place.
func (t *tree) downFile(ctx context.Context, file *client.File, rel string) error {
	there, err := t.root.Lstat(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case there.IsDir():
		return &fs.PathError{Op: "write", Path: rel, Err: errors.New("it is a directory")}
	case t.opts.Keep:
		t.skip(rel, "it is there")
		return nil
	default:
		same, err := t.isSame(ctx, file, rel, there)
		if err != nil {
			return err
		}
		if same {
			t.sum.Unchanged++
			return nil
		}
	}
	sum := sha256.Sum256([]byte(rel))
	collected := ".reprise-" + hex.EncodeToString(sum[:8]) + ".whole"
	opts := *t.opts
	opts.Keep = false
	got, err := t.server.Download(ctx, file.FullPath(), filepath.Join(t.root.Name(), collected), &opts)
	if err != nil {
		return err
	}
	t.copied(&got)
	return t.root.Rename(collected, rel)
}

// isSame reports whether the local file has the bytes of the server's.
func (t *tree) isSame(ctx context.Context, file *client.File, rel string, there fs.FileInfo) (bool, error) {
	if !there.Mode().IsRegular() || there.Size() != file.Size {
		return false, nil
	}
	f, err := t.root.Open(rel)
	if err != nil {
		return false, err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return false, err
	}
	remote, err := t.server.SumFile(ctx, file.FullPath())
	return err == nil && remote.SHA256 == hex.EncodeToString(hash.Sum(nil)), err
}

// setModes sets the permissions of the local directories, innermost first.
func (t *tree) setModes() error {
	for _, dir := range slices.Backward(t.dirs) {
		var mode uint32
		if _, err := fmt.Sscanf(dir.mode, "%o", &mode); err != nil {
			continue
		}
		if err := t.root.Chmod(dir.rel, fs.FileMode(mode)&fs.ModePerm); err != nil {
			return err
		}
	}
	return nil
}

// Up copies the local directory source to a path of the server. The directory becomes target itself, so that the same
// call continues after a failure. The summary holds what was done before an error.
func Up(ctx context.Context, server *client.Client, source, target string, opts *client.TransferOptions) (
	*Summary, error,
) {
	t := newCopy(server, opts)
	var err error
	if t.root, err = os.OpenRoot(source); err != nil {
		return &t.sum, err
	}
	defer t.root.Close()
	return &t.sum, t.up(ctx, target)
}

// Down copies the directory source of the server to a local one, into target if that ends with a slash or a dot.
func Down(ctx context.Context, server *client.Client, source, target string, opts *client.TransferOptions) (
	*Summary, error,
) {
	t := newCopy(server, opts)
	if err := t.openTarget(target, path.Base(source)); err != nil {
		return &t.sum, err
	}
	defer t.root.Close()
	err := t.down(ctx, source, ".")
	if err == nil {
		err = t.setModes()
	}
	return &t.sum, err
}

func newCopy(server *client.Client, opts *client.TransferOptions) *tree {
	return &tree{server: server, opts: opts, sum: Summary{Skipped: []Skip{}}}
}

// openTarget creates the local target directory of a tree.
func (t *tree) openTarget(target, name string) (err error) {
	if strings.HasSuffix(target, "/") || filepath.Base(target) == "." || filepath.Base(target) == ".." {
		target = filepath.Join(target, name)
	}
	if err := os.MkdirAll(target, 0o777); err != nil { // as mkdir does; the umask holds
		return err
	}
	t.root, err = os.OpenRoot(target)
	return err
}
