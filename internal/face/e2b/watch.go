package e2b

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/files"
	"reprise/internal/web"
)

// The events of a watch.
type (
	watchMessage struct {
		Start      *nothing   `json:"start,omitempty"`
		Filesystem *fileEvent `json:"filesystem,omitempty"`
		KeepAlive  *nothing   `json:"keepalive,omitempty"`
	}
	fileEvent struct {
		Name string `json:"name"` // relative to the directory
		Type string `json:"type"`
	}
)

// eventTypes are the types of changes in the protocol.
var eventTypes = map[string]string{
	files.EventCreated: "EVENT_TYPE_CREATE", files.EventModified: "EVENT_TYPE_WRITE",
	files.EventRemoved: "EVENT_TYPE_REMOVE",
}

// watchDir answers with the changes in a directory, from now on.
func (a API) watchDir(x *web.Exchange) error {
	var q pathRequest
	if err := decodeStream(x, &q); err != nil {
		return err
	}
	w, err := a.watch(x, &q)
	if err != nil {
		return err
	}
	if err := a.Reads.Enter(x); err != nil {
		return err
	}
	ctx := x.R.Context()
	on, release, err := a.Files.Watches.Follow(ctx, w.ID)
	if err != nil {
		return fileError(err)
	}
	defer release()
	reader, err := on.Reader(ctx, reprise.After(w.Cursor))
	if err != nil {
		return err
	}
	defer reader.Close()
	x.EndWithServer()
	x.EndWithConnection()
	s := begin(x)
	err = s.send(watchMessage{Start: &nothing{}})
	if err == nil {
		err = each(x.R.Context(), reader, s.keepAlive, func(e *reprise.Event) error {
			for _, change := range changes(e, w.Path) {
				if err := s.send(watchMessage{Filesystem: &change}); err != nil {
					return err
				}
			}
			return nil
		}, func() error { return s.send(watchMessage{KeepAlive: &nothing{}}) })
	}
	if err == nil {
		err = s.end(&refusal{codeNotFound, "the directory is not watched any more"})
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// changes returns what an event of the watch of a directory is in the protocol. A move is two: of the old name, and of
// the new one.
func changes(e *reprise.Event, at string) []fileEvent {
	var c client.FileChange
	if json.Unmarshal(e.Data, &c) != nil || c.Path == "" {
		return nil
	}
	name := func(p string) string { return strings.TrimPrefix(p, at+"/") }
	if e.Type == files.EventMoved {
		return []fileEvent{{name(c.From), "EVENT_TYPE_RENAME"}, {name(c.Path), eventTypes[files.EventCreated]}}
	}
	if kind := eventTypes[e.Type]; kind != "" {
		return []fileEvent{{name(c.Path), kind}}
	}
	return nil
}

// A watcher is a position in the events of a watch. It is kept as the labels of a stream without events, which expires
// when no client has asked for a while.
const (
	watchersNamespace = "e2b.watchers:"
	watcherLife       = 24 * time.Hour

	watchLabel, pathLabel, cursorLabel = "e2b.watch", "e2b.path", "e2b.cursor"
)

type watcherRequest struct {
	ID string `json:"watcherId"`
}

// watch starts to watch the directory of a request, or finds its watch.
func (a API) watch(x *web.Exchange, q *pathRequest) (w files.Watch, err error) {
	if a.Files.Watches == nil {
		return w, &refusal{codeMissing, "directories are not watched here"}
	}
	err = a.at(x, q.Path, func(_ *tree, at string) (err error) {
		w, err = a.Files.Watches.Start(x.R.Context(), at, q.Recursive)
		return err
	})
	return w, err
}

func (a API) createWatcher(x *web.Exchange, q *pathRequest) (any, error) {
	w, err := a.watch(x, q)
	if err != nil {
		return nil, err
	}
	id := strings.ToLower(rand.Text())
	_, _, err = a.Log.Create(x.R.Context(), watcherKey(x, id), reprise.StreamConfig{Labels: map[string]string{
		reprise.AccountLabel: x.Who.Name, watchLabel: w.ID, pathLabel: w.Path, cursorLabel: w.Cursor.String(),
		reprise.ExpiresLabel: expires(),
	}})
	return watcherRequest{id}, err
}

func expires() string { return time.Now().Add(watcherLife).UTC().Format(time.RFC3339) }

func watcherKey(x *web.Exchange, id string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: x.Who.Tenant, Name: watchersNamespace + id}
}

// watcher returns the stream of a watcher of the sender.
func (a API) watcher(x *web.Exchange, id string) (s *reprise.Stream, info reprise.StreamInfo, err error) {
	key := watcherKey(x, id)
	if key.Validate() == nil {
		s, err = a.Log.Stream(x.R.Context(), key)
	} else {
		err = reprise.ErrNotFound
	}
	if err == nil {
		info, err = s.Info(x.R.Context())
	}
	if err == nil && info.Config.Account() != x.Who.Name || errors.Is(err, reprise.ErrNotFound) {
		err = &refusal{codeNotFound, "there is no such watcher"}
	}
	return s, info, err
}

// watcherEvents answers with what has changed since the last time that this was asked for.
func (a API) watcherEvents(x *web.Exchange, q *watcherRequest) (any, error) {
	s, info, err := a.watcher(x, q.ID)
	if err == nil {
		_, err = a.tree(x) // the sender may have lost the right to files
	}
	if err != nil {
		return nil, err
	}
	ctx, labels := x.R.Context(), info.Config.Labels
	on, release, err := a.Files.Watches.Follow(ctx, labels[watchLabel])
	if err != nil {
		return nil, fileError(err)
	}
	defer release()
	at, err := reprise.ParsePosition(labels[cursorLabel])
	if err != nil {
		return nil, err
	}
	reader, err := on.Reader(ctx, at)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	list := []fileEvent{}
	for {
		events, err := reader.Poll(ctx)
		if err != nil && !errors.Is(err, reprise.ErrEnded) {
			return nil, err
		}
		if events.Len() == 0 {
			break
		}
		for e := range events.All() {
			list = append(list, changes(&e, labels[pathLabel])...)
		}
	}
	_, err = s.Configure(ctx, func(config *reprise.StreamConfig) {
		config.Labels[cursorLabel], config.Labels[reprise.ExpiresLabel] = reader.Cursor().String(), expires()
	})
	return map[string]any{"events": list}, err
}

func (a API) removeWatcher(x *web.Exchange, q *watcherRequest) (any, error) {
	s, _, err := a.watcher(x, q.ID)
	if err == nil {
		err = s.Remove(x.R.Context())
	}
	return nothing{}, err
}
