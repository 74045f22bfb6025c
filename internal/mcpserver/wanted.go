package mcpserver

import (
	"bytes"
	"context"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/pattern"
	"reprise/internal/quota"
)

// wanted is what until match waits for. The zero value is nothing.
type wanted struct {
	text   []byte
	search *pattern.Search // in place of text

	// tenant is whose place the search takes.
	tenant reprise.Tenant
	places *quota.Places
}

// wantedOf returns what a call waits for.
func wantedOf(text, expression string) (w wanted, err error) {
	switch {
	case (text == "") == (expression == ""):
		return w, &execution.FieldError{Field: "match", Reason: "until match needs either match or pattern"}
	case text != "":
		w.text = []byte(text)
		return w, nil
	}
	compiled, err := pattern.Compile(expression)
	if err != nil {
		return w, &execution.FieldError{Field: "pattern", Reason: err.Error()}
	}
	w.search = compiled.Search()
	return w, nil
}

// any reports whether there is something to wait for.
func (w *wanted) any() bool { return w.text != nil || w.search != nil }

// affords reports whether a call may still search a text of so many bytes.
func (w *wanted) affords(size int) bool { return w.search == nil || w.search.Affords(size) }

// find returns where the first match in window ends, or -1. The error is pattern.ErrWork or the cause of ctx.
func (w *wanted) find(ctx context.Context, window []byte) (int, error) {
	if w.search == nil {
		if i := bytes.Index(window, w.text); i >= 0 {
			return i + len(w.text), nil
		}
		return -1, nil
	}
	release, err := w.places.Take(ctx, w.tenant)
	if err != nil {
		return -1, err
	}
	defer release()
	return w.search.Find(ctx, window)
}
