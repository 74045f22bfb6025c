package archive

import (
	"context"
	"errors"
	"fmt"

	"reprise"
)

// Check reads completely the files of older lives of streams, which no list contains, and returns a sentence for each
// damaged one. Package transfer checks the streams in lists by reading them: every byte of a file has a checksum that
// Read compares.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.use.RUnlock()
	newest := map[reprise.StreamKey]life{}
	var older []life
	for name, err := range s.place.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		l, ok := parseLife(name)
		if !ok {
			continue
		}
		other, twice := newest[l.key]
		switch {
		case !twice:
			newest[l.key] = l
		case l.newer(other):
			newest[l.key] = l
			older = append(older, other)
		default:
			older = append(older, l)
		}
	}
	for _, l := range older {
		err := s.verify(ctx, l)
		switch {
		case errors.Is(err, ErrDamaged):
			wrong = append(wrong, fmt.Sprintf("an older life of the stream %s: %v", l.key, err))
		case err != nil && !errors.Is(err, reprise.ErrNotFound):
			return wrong, err
		}
	}
	return wrong, nil
}

// verify reads the file of a life whole.
func (s *Store) verify(ctx context.Context, l life) error {
	f, err := s.openLife(ctx, l)
	if err != nil {
		return err
	}
	if err := f.Verify(); err != nil {
		_ = f.close()
		return fmt.Errorf("%s: %w", l.file(), err)
	}
	return f.close()
}
