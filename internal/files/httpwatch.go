package files

import (
	"net/http"

	"reprise"
	"reprise/client"
	"reprise/internal/reads"
	"reprise/internal/web"
)

// watchBody is how a watch is shown.
type watchBody struct {
	client.Watch
	Links watchLinks `json:"links"`
}

type watchLinks struct {
	Self   string `json:"self"`
	Events string `json:"events"`
}

// startWatch begins to watch a directory.
func (a API) startWatch(x *web.Exchange) error {
	watches, err := a.watchesOf(x)
	if err != nil {
		return err
	}
	var body struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
	}
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	watch, err := watches.Start(x.R.Context(), body.Path, body.Recursive)
	if err != nil {
		return err
	}
	self := filesPath + "/watches/" + watch.ID
	return x.Answer(http.StatusOK, watchBody{
		client.Watch{ID: watch.ID, Path: watch.Path, Recursive: watch.Recursive, Cursor: watch.Cursor.String()},
		watchLinks{self, self + "/events"},
	})
}

// watchesOf returns the watches, or an error if the caller may not use files.
func (a API) watchesOf(x *web.Exchange) (*Watches, error) {
	if _, err := a.For(x); err != nil {
		return nil, err
	}
	if a.Watches == nil {
		return nil, reprise.ErrNotFound
	}
	return a.Watches, nil
}

// watchEvents answers with what happens below a directory.
func (a API) watchEvents(x *web.Exchange) error {
	watches, err := a.watchesOf(x)
	if err != nil {
		return err
	}
	stream, release, err := watches.Follow(x.R.Context(), x.R.PathValue("id"))
	if err != nil {
		return err
	}
	x.AtEnd(release)
	return a.Reads.Follow(x, &reads.Reading{Stream: stream})
}

// removeWatch forgets a watch.
func (a API) removeWatch(x *web.Exchange) error {
	watches, err := a.watchesOf(x)
	if err != nil {
		return err
	}
	if err := watches.Remove(x.R.Context(), x.R.PathValue("id")); err != nil {
		return err
	}
	return x.Done()
}
