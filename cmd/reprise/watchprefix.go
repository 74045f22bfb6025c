package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"reprise"
	"reprise/client"
	"reprise/cmd/reprise/internal/pages"
	"reprise/internal/backoff"
	"reprise/internal/durable"
)

const (
	// lookForStreams is how often a watch of a prefix looks for streams that are new.
	lookForStreams = 2 * time.Second
	// maxWatched is how many streams a watch follows at a time; others wait.
	maxWatched = 256
)

// watchedEvent is an event that waits for the command.
type watchedEvent struct {
	name  string
	event client.Event
	done  chan<- error
}

// prefixWatch follows all streams with a prefix.
type prefixWatch struct {
	*watching
	ctx       context.Context // until the watch ends
	cursors   map[string]string
	following map[string]bool
	events    chan watchedEvent
	ended     chan string
	followers sync.WaitGroup
}

// prefix watches all streams with a prefix, those that come too.
func (w *watching) prefix() error {
	cursors, err := loadCursors(w.CursorFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(w.please)
	p := &prefixWatch{
		watching: w, ctx: ctx, cursors: cursors, following: map[string]bool{},
		events: make(chan watchedEvent), ended: make(chan string),
	}
	defer p.followers.Wait()
	defer cancel(nil)
	look := time.NewTicker(lookForStreams)
	defer look.Stop()
	err = p.look()
	for err == nil {
		select {
		case e := <-p.events:
			if err = p.handle(e.name, &e.event); err == nil {
				p.cursors[e.name] = e.event.Cursor
				err = saveCursors(p.CursorFile, p.cursors)
			}
			if err == nil {
				err = context.Cause(p.please)
			}
			e.done <- err
		case name := <-p.ended:
			p.following[name] = false // it stays known, and is not followed again
		case <-look.C:
			err = p.look()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return err
}

// look follows the streams that are new, and forgets those that are gone.
func (p *prefixWatch) look() error {
	all := pages.All(func(limit int, cursor string) ([]client.Stream, string, error) {
		page, err := p.server.ListStreams(p.ctx, limit, cursor)
		return page.Streams, page.NextCursor, err
	}, 0)
	there, active := map[string]bool{}, 0
	for _, follows := range p.following {
		if follows {
			active++
		}
	}
	for s, err := range all {
		if err != nil {
			return err
		}
		if !strings.HasPrefix(s.Name, p.Prefix) {
			continue
		}
		there[s.Name] = true
		if _, known := p.following[s.Name]; !known && active < maxWatched {
			active++
			p.following[s.Name] = true
			p.follow(s.Name)
		}
	}
	for name, follows := range p.following {
		if !there[name] && !follows {
			delete(p.following, name)
			delete(p.cursors, name)
		}
	}
	return nil
}

// follow follows a stream until its end, in a goroutine of its own.
func (p *prefixWatch) follow(name string) {
	opts := p.bridge.options(client.FollowOptions{After: p.After, Types: p.Types})
	if cursor := p.cursors[name]; cursor != "" {
		opts.After = cursor
	}
	p.followers.Go(func() {
		wait := backoff.Backoff{First: lookForStreams, Most: time.Minute}
		for p.read(name, opts) {
			if wait.Wait(p.ctx) != nil {
				return
			}
		}
		select {
		case p.ended <- name:
		case <-p.ctx.Done():
		}
	})
}

// read hands on the events of a stream. again is true after an error that does not say that the stream is gone.
func (p *prefixWatch) read(name string, opts *client.FollowOptions) (again bool) {
	done := make(chan error)
	for event, err := range p.server.FollowStream(p.ctx, name, opts) {
		if err != nil {
			if p.ctx.Err() != nil || errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
				return false
			}
			fmt.Fprintf(os.Stderr, "reprise: %s: %v\n", name, err)
			return true
		}
		select {
		case p.events <- watchedEvent{name, event, done}:
			if <-done != nil {
				return false
			}
			opts.After = event.Cursor
		case <-p.ctx.Done():
			return false
		}
	}
	return false
}

// loadCursors reads the positions of the streams of a watch, "" for no file.
func loadCursors(path string) (map[string]string, error) {
	cursors := map[string]string{}
	if path == "" {
		return cursors, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cursors, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &cursors)
	}
	if err != nil {
		return nil, fmt.Errorf("--cursor-file %s: %w", path, err)
	}
	return cursors, nil
}

// saveCursors replaces the file, so that there are the old positions or the new ones and nothing between.
func saveCursors(path string, cursors map[string]string) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(cursors)
	if err != nil {
		return err
	}
	return durable.Write(path, append(text, '\n'))
}
