package storewrap

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/marker"
)

// Check compares the wrappers around a Store with the marker in it, as reprise.Open does, for a program that uses the
// Store without a Log. The error wraps reprise.ErrInvalid if they differ, have another order, or have other keys. A
// store without a marker gets one, if its data can be read through the wrappers.
func Check(ctx context.Context, store reprise.Store) error { return marker.Check(ctx, store) }

// Retire removes a key from the marker of a store that Encrypt has wrapped, with other wrappers around it or not, so
// that the store opens without the key. It reads all stored data. If any data is encrypted with the key, the error
// wraps reprise.ErrConflict and names a stream. No Store may encrypt with the key any more: the error wraps
// reprise.ErrInvalid if the key is the first one of Encrypt. It is errors.ErrUnsupported if the store is not
// encrypted.
func Retire(ctx context.Context, store reprise.Store, id string) error {
	for s := store; s != nil; {
		if e, ok := s.(*encrypted); ok {
			return e.retire(ctx, id)
		}
		inner, ok := s.(interface{ Unwrap() reprise.Store })
		if !ok {
			break
		}
		s = inner.Unwrap()
	}
	return errors.ErrUnsupported
}

func (e *encrypted) retire(ctx context.Context, id string) error {
	if e.sealer.first == id {
		return fmt.Errorf("%w: the key %q is the first one, which encrypts: put another in front of it",
			reprise.ErrInvalid, id)
	}
	q := reprise.ListQuery{AllNamespaces: true, Limit: 1000}
	for {
		page, err := e.Inner.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Streams {
			if err := e.needs(ctx, &page.Streams[i], id); err != nil {
				return err
			}
		}
		if q.After = page.Next; q.After == "" {
			return marker.Retire(ctx, e, id)
		}
	}
}

// needs returns an error if any data of a stream is encrypted with the key id.
func (e *encrypted) needs(ctx context.Context, info *reprise.StreamInfo, id string) error {
	if info.Key.IsMarker() {
		return nil
	}
	needed := fmt.Errorf("%w: the stream %s is encrypted with the key %q", reprise.ErrConflict, info.Key, id)
	if sealedWith(info.Config.Meta) == id || info.End != nil && sealedWith(info.End.Data) == id {
		return needed
	}
	for after := uint64(0); ; {
		page, err := e.Inner.Read(ctx, info.Key, after, 1<<20)
		switch {
		case isAbsent(err):
			return nil
		case err != nil:
			return err
		case len(page.Batches) == 0:
			return nil
		}
		for _, b := range page.Batches {
			if sealedWith(b.Bytes) == id {
				return needed
			}
			after = b.Last()
		}
	}
}

// sealedWith returns the id of the key that encrypts sealed, or "" if sealed is not encrypted.
func sealedWith(sealed []byte) string {
	if len(sealed) < 2 || sealed[0] != codeEncrypted || 2+int(sealed[1]) > len(sealed) {
		return ""
	}
	return string(sealed[2 : 2+int(sealed[1])])
}
