package logstore

import (
	"errors"
	"fmt"
)

// The mark of a store that was closed is a frame without records, in a file of its own. It has the number of the commit
// that would have been next. The log of a closed store that ends before it was cut; without the mark that could be a
// write that was under way. The mark is removed before anything is written, and a log that goes on behind a mark is
// whole: an earlier version has appended to it.
const (
	closedName = "closed"
	closedTmp  = "closed.tmp"
	closedSalt = 0x64_65_73_6f_6c_63 // "closed"
)

// markClosed writes the mark. What it says is durable already.
func (s *Store) markClosed() error {
	_ = s.disk.remove(closedTmp)
	f, err := s.disk.create(closedTmp, 0)
	if err != nil {
		return err
	}
	mark := make([]byte, frameBytes)
	sealFrame(mark, s.nextCommit, closedSalt)
	_, err = f.WriteAt(mark, 0)
	if err == nil {
		err = f.sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.disk.rename(closedTmp, closedName)
	}
	if err != nil {
		return errors.Join(err, s.disk.remove(closedTmp))
	}
	return s.disk.sync()
}

// unmarkClosed removes the mark, unless the commits that were read end before it: then the log is damaged. A mark that
// cannot be read says nothing.
func (s *Store) unmarkClosed() error {
	f, err := s.disk.open(closedName)
	if err != nil {
		return nil //nolint:nilerr // the store was not closed, or by an earlier version
	}
	size, err := f.size()
	next, whole := uint64(0), false
	if err == nil {
		_, next, whole, err = readFrame(f, 0, size, closedSalt, nil)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", closedName, err)
	}
	if whole && next > s.nextCommit {
		return damaged("the store was closed after commit %d, and the log ends with commit %d", next-1, s.nextCommit-1)
	}
	return s.disk.remove(closedName)
}
