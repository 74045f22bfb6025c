//go:build !unix

package doctor

import "errors"

func maxFiles() (uint64, error) { return 0, errors.ErrUnsupported }
