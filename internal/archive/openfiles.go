package archive

import (
	"errors"
	"slices"
	"sync"
	"time"

	"reprise"
)

// openFiles keeps the files that were read last, for readers of a stream page by page. Each
// is used by one call at a time.
type openFiles struct {
	mu    sync.Mutex
	files []*openedFile // the one that was used last is the last
}

const (
	// maxIdle is how many files stay open.
	maxIdle = 32
	// fresh is how long a file is taken for the newest life of its stream without a look.
	fresh = 10 * time.Second
)

// take returns a file of the stream that no call uses, nil if there is none. The caller gives it back.
func (o *openFiles) take(key reprise.StreamKey) *openedFile {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, f := range slices.Backward(o.files) {
		if f.life.key != key {
			continue
		}
		o.files = slices.Delete(o.files, i, i+1)
		if time.Since(f.found) < fresh {
			return f
		}
		_ = f.close() // it was only read
	}
	return nil
}

// give keeps a file for the next call, and closes the one that was not used for longest if there
// are too many.
func (o *openFiles) give(f *openedFile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files = append(o.files, f)
	if len(o.files) > maxIdle {
		_ = o.files[0].close()
		o.files = slices.Delete(o.files, 0, 1)
	}
}

func (o *openFiles) closeAll() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, f := range o.files {
		errs = append(errs, f.close())
	}
	o.files = nil
	return errors.Join(errs...)
}
