//go:build !linux

package main

import "errors"

// hardened is for what systemd does.
func hardened([]string) error { return errors.ErrUnsupported }
