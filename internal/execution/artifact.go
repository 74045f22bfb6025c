package execution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"reprise"
	"reprise/internal/artifact"
	"reprise/internal/isolation"
)

// The artifacts of an execution are in a separate stream in the store, so that every replica can read them. The stream
// holds the bytes of the files one after the other, in chunks of artifact.ChunkBytes. The end event of the execution
// lists the files, and is appended after them.

// artifactNamespace begins the names of these streams.
const artifactNamespace = "artifacts:"

// artifactsOf is the stream of the artifacts of an execution.
func artifactsOf(key reprise.StreamKey) reprise.StreamKey {
	return reprise.StreamKey{Tenant: key.Tenant, Name: artifactNamespace + key.Name[len(Namespace):]}
}

func (r *Request) checkArtifacts() error {
	if len(r.Artifacts) > artifact.MaxPatterns {
		return invalid("artifacts", "at most %d are taken", artifact.MaxPatterns)
	}
	for _, pattern := range r.Artifacts {
		if err := artifact.Check(pattern); err != nil {
			return invalid("artifacts", "%q %v", pattern, err)
		}
	}
	return nil
}

// collection returns the selection of files to keep for a run, or nil for none. It opens the directory of the files,
// before the command is started.
func (r *Run) collection() *artifact.Collection {
	if len(r.request.Artifacts) == 0 {
		return nil
	}
	c := &artifact.Collection{
		Dir: r.host.cwd(r.key.Tenant, &r.request), Patterns: r.request.Artifacts, Hidden: r.isolation.Masked(),
		Masked: identities(r.isolation.Masks), MaxBytes: r.host.opts.MaxArtifactBytes,
	}
	c.Open()
	return c
}

// identities are the identities of masks, which their paths may no longer lead to.
func identities(masks []isolation.Mask) (ids []artifact.ID) {
	for _, m := range masks {
		ids = append(ids, artifact.ID{Device: m.Dev, Inode: m.Ino})
	}
	return ids
}

const (
	// collectPatience limits how long the end of a run waits until its artifacts are kept.
	collectPatience = time.Minute
	// artifactBatch is the number of chunks in one append.
	artifactBatch = 16
)

// Why artifacts are not kept.
var (
	errCollectSlow    = fmt.Errorf("that took more than %v", collectPatience)
	errCollectStopped = errors.New("the execution was cancelled while they were collected")
)

// collect keeps the artifacts. An earlier server may have begun to. A call of stop ends it.
func (r *Run) collect() ([]artifact.File, []string) {
	ctx, cancel := context.WithTimeoutCause(r.host.ctx, collectPatience, errCollectSlow)
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	r.OnStop(func() { interrupt(errCollectStopped) })
	defer r.OnStop(nil)
	files, notes, err := r.keepArtifacts(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		r.Logger().Error("artifacts cannot be kept", "error", err)
		ctx, cancel := context.WithTimeout(r.host.ctx, collectPatience)
		defer cancel()
		_ = r.host.log.Remove(ctx, artifactsOf(r.key))
		return nil, []string{"they could not be kept: " + err.Error()}
	}
	return files, notes
}

// keepArtifacts appends the artifacts to their stream.
func (r *Run) keepArtifacts(ctx context.Context) ([]artifact.File, []string, error) {
	var batch []reprise.Event
	var stream *reprise.Stream
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		if stream == nil {
			var err error
			if stream, err = r.artifactStream(ctx); err != nil {
				return err
			}
		}
		_, err := stream.Append(ctx, batch...)
		batch = nil
		return err
	}
	files, notes, err := r.gather(ctx, func(chunk []byte) error {
		batch = append(batch, reprise.Event{Type: "chunk", Data: slices.Clone(chunk)})
		if len(batch) < artifactBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil && stream != nil {
		_, err = stream.End(ctx, "completed", reprise.Event{})
	}
	return files, notes, err
}

// artifactStream creates the stream, which is kept as long as the run's.
func (r *Run) artifactStream(ctx context.Context) (*reprise.Stream, error) {
	key := artifactsOf(r.key)
	if err := r.host.log.Remove(ctx, key); err != nil {
		return nil, err
	}
	config := r.config
	if s, err := r.host.log.Stream(ctx, r.key); err == nil {
		if info, err := s.Info(ctx); err == nil {
			config = info.Config // it may have been changed
		}
	}
	most := r.artifacts.MaxBytes
	s, _, err := r.host.log.CreateWith(ctx, reprise.CreateOptions{}, key,
		reprise.StreamConfig{Retention: reprise.Retention{
			MaxEvents: most/artifact.ChunkBytes + artifact.MaxFiles + 2, MaxBytes: 2*most + 1<<20,
			MaxAge: r.host.log.Retention(config).MaxAge,
		}})
	return s, err
}

// Artifact is a file that is kept with an execution.
type Artifact struct {
	artifact.File
	stream *reprise.Stream
	first  uint64 // its first chunk
}

// Artifact finds a file by its path. It returns the same errors as Show, and reprise.ErrNotFound if no such file is
// kept.
func (h *Host) Artifact(ctx context.Context, tenant reprise.Tenant, id, path string) (*Artifact, error) {
	x, err := h.Show(ctx, tenant, id)
	if err == nil && x.Expired {
		err = errOutputExpired
	}
	if err != nil {
		return nil, err
	}
	first := uint64(1)
	for _, file := range x.Artifacts {
		if file.Path == path {
			a := &Artifact{File: file, first: first}
			if file.Size > 0 {
				a.stream, err = h.log.Stream(ctx, artifactsOf(keyOf(tenant, id)))
			}
			return a, err
		}
		first += uint64(file.Size+artifact.ChunkBytes-1) / artifact.ChunkBytes
	}
	return nil, fmt.Errorf("%w: execution %s has no artifact %q", reprise.ErrNotFound, id, path)
}

// Copy writes length bytes from an offset on to w, both within the file.
func (a *Artifact) Copy(ctx context.Context, w io.Writer, offset, length int64) (int64, error) {
	if length == 0 {
		return 0, nil
	}
	at := a.first + uint64(offset/artifact.ChunkBytes)
	reader, err := a.stream.Reader(ctx, reprise.After(a.stream.Cursor(at-1)))
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	c := copier{w: w, skip: offset % artifact.ChunkBytes, left: length}
	for c.left != 0 {
		chunks, err := reader.Next(ctx)
		if err != nil {
			return c.done, err
		}
		for e := range chunks.All() {
			if err := c.copy(e.Data); err != nil || c.left == 0 {
				return c.done, err
			}
		}
	}
	return c.done, nil
}
