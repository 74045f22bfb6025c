//go:build unix

package httpserver

import (
	"errors"
	"syscall"
)

// passes reports whether accepting may succeed later. Of the errors of accept(2), epoll_ctl(2) and kevent(2) these are
// the ones for a lack of something that other processes take and give back.
func passes(err error) bool {
	for _, lack := range []error{
		syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN,
	} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}
