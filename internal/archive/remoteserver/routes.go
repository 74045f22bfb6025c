package remoteserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"reprise"
	"reprise/internal/archive"
	"reprise/internal/archive/remote"
)

// server serves one archive. Either place or sink is nil.
type server struct {
	place   archive.Place
	sink    archive.Sink
	closers []io.Closer

	mu    sync.Mutex
	files map[string]*openFile
}

// openFile is a file that the parent has open.
type openFile struct {
	archive.PlacedFile
	stop context.CancelFunc
}

func (s *server) close() error {
	var errs []error
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		errs = append(errs, f.Close())
		f.stop()
	}
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	if s.place != nil {
		mux.HandleFunc("PUT /file", s.create)
		mux.HandleFunc("POST /open", s.open)
		mux.HandleFunc("GET /read", s.read)
		mux.HandleFunc("DELETE /open", s.release)
		mux.HandleFunc("GET /list", s.list)
	}
	if s.sink != nil {
		mux.HandleFunc("POST /stream", s.stream)
	}
	return mux
}

// answer ends a request without a body of its own.
func answer(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		return
	}
	// What is not read of a body would cut off the answer.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write(remote.Line(remote.ProblemOf(err)))
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	answer(w, r, s.place.Create(r.Context(), r.FormValue("name"), func(file io.Writer) error {
		if _, err := io.Copy(file, r.Body); err != nil {
			return fmt.Errorf("%w: the file was cut off: %v", reprise.ErrUnavailable, err)
		}
		return nil
	}))
}

func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	info, batches, err := remote.ReadStream(r.Body)
	if err == nil {
		err = s.sink.Put(r.Context(), info, batches)
	}
	answer(w, r, err)
}

func (s *server) open(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithCancel(context.WithoutCancel(r.Context())) // until it is released
	file, err := s.place.Open(ctx, r.FormValue("name"))
	if err != nil {
		stop()
		answer(w, r, err)
		return
	}
	handle := rand.Text()
	s.mu.Lock()
	s.files[handle] = &openFile{file, stop}
	s.mu.Unlock()
	_, err = w.Write(remote.Line(remote.Opened{Handle: handle, Size: file.Size()}))
	if err != nil { // the parent does not know the handle
		_ = s.drop(handle)
	}
}

// drop closes an open file.
func (s *server) drop(handle string) error {
	s.mu.Lock()
	f := s.files[handle]
	delete(s.files, handle)
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	defer f.stop()
	return f.Close()
}

func (s *server) release(w http.ResponseWriter, r *http.Request) {
	answer(w, r, s.drop(r.FormValue("handle")))
}

// maxRead bounds the memory for one read.
const maxRead = 1 << 30

func (s *server) read(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.files[r.FormValue("handle")]
	s.mu.Unlock()
	at, err1 := strconv.ParseInt(r.FormValue("at"), 10, 64)
	size, err2 := strconv.ParseInt(r.FormValue("len"), 10, 64)
	switch {
	case f == nil:
		answer(w, r, fmt.Errorf("%w: the file is not open any more", reprise.ErrUnavailable))
		return
	case err1 != nil || err2 != nil || at < 0 || size < 0 || size > maxRead:
		answer(w, r, fmt.Errorf("%w: at and len of a read", reprise.ErrInvalid))
		return
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, at); err != nil && (!errors.Is(err, io.EOF) || n < len(b)) {
		answer(w, r, err)
		return
	}
	_, _ = w.Write(b)
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	last := remote.Listed{End: true}
	for name, err := range s.place.List(r.Context(), r.FormValue("prefix")) {
		if err != nil {
			last = remote.Listed{Error: remote.ProblemOf(err)}
			break
		}
		if _, err := w.Write(remote.Line(remote.Listed{Name: name})); err != nil {
			return
		}
	}
	_, _ = w.Write(remote.Line(last))
}
