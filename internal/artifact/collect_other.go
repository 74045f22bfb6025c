//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package artifact

import "context"

// Identify returns nothing: only systems that run commands have artifacts.
func Identify([]string) []ID { return nil }

// Open does nothing.
func (c *Collection) Open() {}

// OpenAgain does nothing.
func (c *Collection) OpenAgain() {}

// Close does nothing.
func (c *Collection) Close() {}

// Collect collects nothing.
func (c *Collection) Collect(context.Context, func(chunk []byte) error) (files []File, notes []string, err error) {
	return nil, []string{"this system has no artifacts"}, nil
}
