//go:build amd64 || arm64

package isolation

// call is one system call of a child. Its layout is known to the assembly.
type call struct {
	number uintptr
	args   [6]uintptr
	// save, if not 0, is the address at which the result is stored. use, if not 0, is the address of the first
	// argument.
	save, use uintptr
	// tolerated is an error that does not end the child, 0 for none.
	tolerated uintptr
	// expect, if not 0, is the result without which the child ends.
	expect uintptr
}

// failure is the address of the call that failed, 0 for none, and its error, 0 for an unexpected result.
type failure struct{ call, errno uintptr }

// fork makes the system call number, clone(2) or clone3(2), with two arguments, and so starts a child that shares our
// memory. The child makes count system calls, and ends after the last one or after one that has stored its error in
// failed. It runs no Go code and needs no stack of its own, so the parent does not wait for it. Everything that the
// child reads must stay at its address until the child has ended. All signals are blocked, because their handlers
// belong to the parent.
func fork(number, first, second uintptr, calls *call, count uintptr, failed *failure) (pid, errno uintptr)
