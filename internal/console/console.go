// Package console is the web console of a server: a page that shows live executions and streams, starts and controls
// executions, and demonstrates that a connection that was cut resumes without loss.
//
// The page is written in TypeScript, in the folder web. "make console" builds it into the folder dist, which is checked
// in and embedded in the binary, so that a build needs only Go. The page sends requests only to its own server, through
// the same API as any other client; docs/console.md describes it.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"reprise/internal/problem"
)

//go:embed dist
var dist embed.FS

// Prefix is the path below which all files but the page itself lie. The page is at "/".
const Prefix = "/console/"

// policy lets the page load what came with it, and nothing else. No style or script is inline.
const policy = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is what is sent for one path.
type file struct {
	mediaType string
	etag      string
	plain     []byte
	zipped    []byte // nil where that is not smaller
	lasting   bool   // the name changes with the content
}

// Handler serves the files of the console. It is safe for concurrent use. Who asks does not matter: the
// files are the same for everybody and hold no secret.
type Handler struct {
	files map[string]*file // by path
}

// New returns a Handler.
func New() *Handler {
	h := &Handler{files: map[string]*file{}}
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, entry := range entries {
		content, err := dist.ReadFile(path.Join("dist", entry.Name()))
		if err != nil {
			panic(err)
		}
		at := Prefix + entry.Name()
		if entry.Name() == "index.html" {
			at = "/"
		}
		h.files[at] = newFile(entry.Name(), content)
	}
	return h
}

func newFile(name string, content []byte) *file {
	digest := sha256.Sum256(content)
	f := &file{
		mediaType: mediaTypes[path.Ext(name)], plain: content,
		etag:    strconv.Quote(hex.EncodeToString(digest[:8])),
		lasting: strings.Contains(name, "-"),
	}
	if zipped := zip(content); len(zipped) < len(content)*9/10 {
		f.zipped = zipped
	}
	return f
}

// mediaTypes are those of all files, by extension. The tables of the machine may differ.
var mediaTypes = map[string]string{
	".css":   "text/css; charset=utf-8",
	".html":  "text/html; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".svg":   "image/svg+xml",
	".txt":   "text/plain; charset=utf-8",
	".woff2": "font/woff2",
}

// zip compresses content as well as gzip can.
func zip(content []byte) []byte {
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("gzip into memory: %v", err))
	}
	return zipped.Bytes()
}

// ServeHTTP implements http.Handler. A path that is none of the console's is refused as not_found.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := h.files[r.URL.Path]
	if f == nil {
		_ = problem.Write(w, problem.New(problem.CodeNotFound, "the console has no such file"))
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refusal := problem.Invalid(http.StatusMethodNotAllowed, "", "this path knows the methods GET, HEAD")
		_ = problem.Write(w, refusal)
		return
	}
	f.serve(w, r)
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache")
	if f.lasting {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	header.Set("ETag", f.etag)
	header.Add("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content := f.plain
	if f.zipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		content = f.zipped
	}
	header.Set("Content-Type", f.mediaType)
	header.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(content) // nobody is left to be told of a failure
}
