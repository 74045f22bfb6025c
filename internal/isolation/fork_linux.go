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
	// branch is set for a call that forks. It is the address of the call with which the new process goes on. Until the
	// program is run, it is an index.
	branch uintptr
}

// failure is the address of the first call that failed, 0 for none, and its error, 0 for an unexpected result.
type failure struct{ call, errno uintptr }

// fork makes the system call number, clone(2) or clone3(2), with two arguments, and so starts a child that shares our
// memory. The child makes system calls until one of them executes a program or ends the child, or until one fails,
// whose error is stored in failed. It runs no Go code and needs no stack of its own, so the parent does not wait for
// it. Everything that the child reads must stay at its address until the child has ended. All signals are blocked,
// because their handlers belong to the parent.
func fork(number, first, second uintptr, calls *call, failed *failure) (pid, errno uintptr)

// initText returns the machine code of the first process of a process table, and what follows it.
func initText() *[initBytes]byte

// initBytes is more than the size of the code on each architecture.
const initBytes = 512
