//go:build !unix

package doctor

import "errors"

func freeBytes(string) (uint64, error) { return 0, errors.ErrUnsupported }

func maxFiles() (uint64, error) { return 0, errors.ErrUnsupported }
