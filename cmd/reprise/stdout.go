package main

import (
	"os"
	"sync/atomic"
)

// stdout receives results. Writing to a closed pipe ends the process, as in other programs; "run" reports it before.
var stdout = &results{file: os.Stdout}

// results is a file that keeps the error of its first failed write, so that a verb fails whose result was not written,
// whether it looks at that error or not.
type results struct {
	file   *os.File
	failed atomic.Pointer[error]
}

func (r *results) Write(b []byte) (int, error) {
	n, err := r.file.Write(b)
	if err != nil {
		r.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// unwritten returns the error of the first failed write, or nil.
func (r *results) unwritten() error {
	if err := r.failed.Load(); err != nil {
		return *err
	}
	return nil
}
