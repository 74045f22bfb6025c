package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"reprise"
	"reprise/internal/ssefollow"
)

// Download copies a file of the server to a local path. The file appears there when all of it has arrived and has the
// checksum of the server. Download continues through lost connections and restarts of the server. A call after an
// error, also by another process, continues with the bytes that have arrived before, which are in a hidden file beside
// local. The error wraps ErrFileChanged if the file of the server was changed meanwhile. opts may be nil.
func (c *Client) Download(ctx context.Context, p, local string, opts *TransferOptions) (File, error) {
	t := c.transfer("download "+p, opts)
	if err := t.checkLocal(local); err != nil {
		return File{}, err
	}
	file, err := t.show(ctx, p)
	if err != nil {
		return File{}, err
	}
	part, err := os.OpenFile(partName(local, p, file.ETag), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return File{}, err
	}
	defer part.Close()
	if err := t.download(ctx, p, &file, part); err != nil {
		if errors.Is(err, ErrFileChanged) {
			_ = os.Remove(part.Name())
		}
		return File{}, err
	}
	return file, t.finish(&file, part, local)
}

// checkLocal refuses to put a file where none can be.
func (t *transfer) checkLocal(local string) error {
	info, err := os.Lstat(local)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "write", Path: local, Err: errors.New("it is a directory")}
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return &fs.PathError{Op: "write", Path: local, Err: errors.New("it is not a file")}
	case t.opts.Keep:
		return &fs.PathError{Op: "write", Path: local, Err: fs.ErrExist}
	}
	return nil
}

// show requests the version that will be downloaded.
func (t *transfer) show(ctx context.Context, p string) (File, error) {
	file, err := t.stat(ctx, filePath(p))
	switch {
	case err != nil || file.Type == "file":
		return file, err
	case file.Type != "symlink":
		return File{}, fmt.Errorf("%s: %w: it is a %s", t.op, reprise.ErrInvalid, file.Type)
	}
	return t.sum(ctx, p) // of what the link leads to
}

// sum requests the checksum as well.
func (t *transfer) sum(ctx context.Context, p string) (File, error) {
	query := filePath(p)
	query.Set("checksum", "true")
	return t.stat(ctx, query)
}

// stat asks until it is answered.
func (t *transfer) stat(ctx context.Context, query url.Values) (file File, err error) {
	err = t.ask(ctx, "/stat", query, &file)
	return file, err
}

// partName is the file that collects a download: another version is collected elsewhere.
func partName(local, p, etag string) string {
	sum := sha256.Sum256([]byte(filepath.Base(local) + "\x00" + p + "\x00" + etag))
	return filepath.Join(filepath.Dir(local), ".reprise-"+hex.EncodeToString(sum[:8])+".part")
}

// download gets what part does not have, and checks the whole.
func (t *transfer) download(ctx context.Context, p string, file *File, part *os.File) error {
	info, err := part.Stat()
	if err != nil {
		return err
	}
	have := info.Size()
	if have > file.Size {
		have = 0
	}
	kept := have > 0
	t.progress(have, file.Size)
	for have < file.Size {
		before := have
		err := t.get(ctx, p, file, part, &have)
		if have > before {
			t.succeeded()
		}
		switch {
		case errors.Is(err, ErrFileChanged):
			return err
		case err != nil:
			if err := t.failed(ctx, err); err != nil {
				return err
			}
		}
	}
	err = t.verify(ctx, p, file, part)
	if errors.Is(err, errOtherBytes) && kept { // a part that a crash has damaged
		if err := part.Truncate(0); err != nil {
			return err
		}
		return t.download(ctx, p, file, part)
	}
	return err
}

// get gets bytes after those that there are.
func (t *transfer) get(ctx context.Context, p string, file *File, part *os.File, have *int64) error {
	return watched(ctx, t.opts.IdleTimeout, func(ctx context.Context, alive func()) error {
		res, err := t.c.send(ctx, &request{
			op: t.op, method: http.MethodGet, path: filesPath + "/content", query: filePath(p),
			header: http.Header{
				"Accept":   {bytesType},
				"Range":    {"bytes=" + strconv.FormatInt(*have, 10) + "-"},
				"If-Range": {file.ETag},
			},
		})
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if err := t.c.refusal(res); err != nil {
			return err
		}
		t.c.met.Store(true)
		if err := checkPart(res, file, *have); err != nil {
			return err
		}
		return t.receive(ctx, res, file, part, have, alive)
	})
}

// checkPart rejects an answer that is not the requested part.
func checkPart(res *http.Response, file *File, have int64) error {
	switch {
	case res.Header.Get("ETag") == "":
		return notOurs(res)
	case res.Header.Get("ETag") != file.ETag:
		return ErrFileChanged
	case res.StatusCode == http.StatusOK && have == 0:
		return nil
	case res.StatusCode != http.StatusPartialContent ||
		!strings.HasPrefix(res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)):
		return notOurs(res)
	}
	return nil
}

// receive writes the received bytes to part.
func (t *transfer) receive(ctx context.Context, res *http.Response, file *File, part *os.File, have *int64,
	alive func(),
) error {
	buf := make([]byte, 256<<10)
	for *have < file.Size {
		n, err := res.Body.Read(buf[:min(int64(len(buf)), file.Size-*have)])
		if n > 0 {
			if _, err := part.WriteAt(buf[:n], *have); err != nil {
				return err
			}
			*have += int64(n)
			alive()
			t.progress(*have, file.Size)
		}
		switch {
		case errors.Is(err, io.EOF) && *have < file.Size:
			return &ssefollow.TransportError{Err: errCutShort}
		case err != nil && !errors.Is(err, io.EOF):
			return ssefollow.Broken(ctx, err)
		}
	}
	return nil
}

// errOtherBytes is the error of received bytes that differ from the server's.
var errOtherBytes = fmt.Errorf("%w: a file with another checksum", ErrProtocol)

// verify compares the received bytes with the file on the server, which is still the same version.
func (t *transfer) verify(ctx context.Context, p string, file *File, part *os.File) error {
	there, err := t.sum(ctx, p)
	if err != nil {
		return err
	}
	if there.ETag != file.ETag {
		return fmt.Errorf("%s: %w", t.op, ErrFileChanged)
	}
	got, err := sumLocal(ctx, part, file.Size)
	if err != nil {
		return err
	}
	if got != there.SHA256 {
		return fmt.Errorf("%s: %w", t.op, errOtherBytes)
	}
	file.SHA256 = got
	return nil
}

// finish renames the complete part to its final name.
func (t *transfer) finish(file *File, part *os.File, local string) error {
	mode, err := strconv.ParseUint(file.Mode, 8, 9)
	if err != nil {
		mode = 0o644
	}
	if err := errors.Join(
		part.Truncate(file.Size), part.Chmod(fs.FileMode(mode)), part.Sync(), part.Close(),
	); err != nil {
		return err
	}
	if t.opts.Keep {
		if err := os.Link(part.Name(), local); err != nil {
			return err
		}
		return os.Remove(part.Name())
	}
	return os.Rename(part.Name(), local)
}
