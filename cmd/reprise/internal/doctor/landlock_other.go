//go:build !linux

package doctor

import "errors"

func landlockVersion() (int, error) { return 0, errors.New("Landlock is a part of Linux") }
