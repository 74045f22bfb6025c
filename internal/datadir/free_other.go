//go:build !unix

package datadir

import "errors"

// Free returns errors.ErrUnsupported.
func Free(string) (uint64, error) { return 0, errors.ErrUnsupported }
