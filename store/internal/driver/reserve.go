package driver

// Reserve is space on a disk for removals, in a file of its own: it is released when they find no room, and held again
// when there is. It holds nothing without a file.
type Reserve struct {
	file ReserveFile
	held int64
}

// ReserveFile is the file of a Reserve.
type ReserveFile interface {
	// Allocate extends the file and reserves the space for it.
	Allocate(size int64) error
	Truncate(size int64) error
}

// Use begins with a file that has size bytes.
func (r *Reserve) Use(f ReserveFile, size int64) { r.file, r.held = f, size }

// Held is the number of bytes.
func (r *Reserve) Held() int64 { return r.held }

// Hold makes the reserve larger or smaller. After an error it is as it was.
func (r *Reserve) Hold(size int64) (err error) {
	switch {
	case r.file == nil || size == r.held:
		return nil
	case size < r.held:
		err = r.file.Truncate(size)
	default:
		if err = r.file.Allocate(size); err != nil { // some file systems keep what they could reserve
			_ = r.file.Truncate(r.held)
		}
	}
	if err == nil {
		r.held = size
	}
	return err
}

// Release gives the space back to the disk. It reports whether there was any.
func (r *Reserve) Release() bool {
	had := r.held > 0
	return had && r.Hold(0) == nil
}
