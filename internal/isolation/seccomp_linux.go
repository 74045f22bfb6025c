//go:build amd64 || arm64

package isolation

import (
	"cmp"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// denied are the system calls that no build makes and that have been ways out: they load code into the
// kernel, change the machine, share keys between all processes of a user, or open files by their number.
var denied = []uint32{
	unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_ADJTIMEX, unix.SYS_BPF, unix.SYS_CLOCK_ADJTIME, unix.SYS_CLOCK_SETTIME,
	unix.SYS_DELETE_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_INIT_MODULE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD,
	unix.SYS_KCMP, unix.SYS_KEYCTL, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_QUOTACTL, unix.SYS_REBOOT, unix.SYS_REQUEST_KEY, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF, unix.SYS_SWAPON,
	unix.SYS_SYSLOG, unix.SYS_USERFAULTFD, unix.SYS_VHANGUP,
}

// unavailable are the system calls that answer "not implemented", so that programs do without them. A filter sees the
// arguments of none: clone3 takes a structure, and io_uring makes other calls that no filter sees at all.
var unavailable = []uint32{
	unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
}

// Offsets in struct seccomp_data; the last one is the offset of the lower half of the first argument.
const (
	dataNumber   = 0
	dataArch     = 4
	dataArgument = 16
)

// x32 marks numbers of the ABI of that name, which are calls of the same architecture on amd64.
const x32 = 0x40000000

// abi is the numbers of system calls of an architecture. The numbers in unavailable are the same everywhere.
type abi struct {
	arch                    uint32
	denied                  []uint32
	clone, unshare, prlimit uint32
	setpriority, ioprioSet  uint32
}

// native is the ABI of this program.
var native = abi{
	arch: nativeArch, denied: denied,
	clone: unix.SYS_CLONE, unshare: unix.SYS_UNSHARE, prlimit: unix.SYS_PRLIMIT64,
	setpriority: unix.SYS_SETPRIORITY, ioprioSet: unix.SYS_IOPRIO_SET,
}

func statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func load(offset uint32) unix.SockFilter {
	return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset)
}

func answer(action uint32) unix.SockFilter { return statement(unix.BPF_RET|unix.BPF_K, action) }

var (
	pass   = answer(unix.SECCOMP_RET_ALLOW)
	refuse = answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	absent = answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
)

// filter returns the BPF program of the ABI. In addition to the denied calls it refuses cgroup namespaces: in a new one
// together with a new user namespace, a process can mount its cgroup again and write to it. Where clone3 is not
// available the C libraries use clone. And it refuses to set the resource limits of other processes: one system call
// with RLIMIT_CPU or RLIMIT_NOFILE ends the server. The process itself is number 0 there. And it refuses to set the
// priority of all processes of a user (2 for setpriority, 3 for ioprio_set) or, of input and output, of a group (2).
//
// The numbers are searched by halves. That makes calls faster, and above all starts: for each number of a call, the
// kernel follows a new filter once, to know which calls it passes always.
func (a *abi) filter() []unix.SockFilter {
	cases := a.cases()
	tail := 3 + searchLength(len(cases))
	places := []int{
		flagged: tail, self: tail + 2, many: tail + 4, passed: tail + 6, refused: tail + 7, missing: tail + 8,
	}
	end := tail + 9 // where the instructions for another architecture follow
	b := &block{}
	b.jump(unix.BPF_JEQ, a.arch, 1, end)
	b.add(load(dataNumber))
	b.jump(unix.BPF_JGE, x32, places[refused], 3)
	b.search(cases, places)
	b.add(load(dataArgument))
	b.jump(unix.BPF_JSET, unix.CLONE_NEWCGROUP, places[refused], places[passed])
	b.add(load(dataArgument))
	b.jump(unix.BPF_JEQ, 0, places[passed], places[refused])
	b.add(load(dataArgument))
	b.jump(unix.BPF_JGE, several, places[refused], places[passed])
	b.add(pass, refuse, absent)
	return b.instructions
}

// several is the first argument of setpriority and ioprio_set from which on they mean many processes.
const several = 2

// outcome is what a filter does with a call.
type outcome int

const (
	passed  outcome = iota
	flagged         // refused with a flag in the first argument
	self            // refused if the first argument is not 0
	many            // refused if the first argument is several or more
	refused
	missing
)

// callCase is the outcome of a system call that does not pass.
type callCase struct {
	number  uint32
	outcome outcome
}

// cases returns the system calls that do not pass, by number.
func (a *abi) cases() []callCase {
	cases := []callCase{
		{a.unshare, flagged},
		{a.clone, flagged},
		{a.prlimit, self},
		{a.setpriority, many},
		{a.ioprioSet, many},
	}
	for _, number := range a.denied {
		cases = append(cases, callCase{number, refused})
	}
	for _, number := range unavailable {
		cases = append(cases, callCase{number, missing})
	}
	slices.SortFunc(cases, func(x, y callCase) int { return cmp.Compare(x.number, y.number) })
	return cases
}

// block is a part of a BPF program, whose jumps lead to places in it.
type block struct{ instructions []unix.SockFilter }

func (b *block) add(more ...unix.SockFilter) { b.instructions = append(b.instructions, more...) }

func (b *block) jump(test uint16, k uint32, yes, no int) {
	next := len(b.instructions) + 1
	b.add(unix.SockFilter{
		Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: uint8(yes - next), Jf: uint8(no - next),
	})
}

// fewCases is how many cases are compared one after the other.
const fewCases = 4

// searchLength is the number of instructions that search adds for n cases.
func searchLength(n int) int {
	if n <= fewCases {
		return n
	}
	return 1 + searchLength(n/2) + searchLength(n-n/2)
}

// search adds jumps to the place of the outcome of a number.
func (b *block) search(cases []callCase, places []int) {
	if half := len(cases) / 2; len(cases) > fewCases {
		lower := len(b.instructions) + 1
		b.jump(unix.BPF_JGE, cases[half].number, lower+searchLength(half), lower)
		b.search(cases[:half], places)
		b.search(cases[half:], places)
		return
	}
	for i, c := range cases {
		no := len(b.instructions) + 1
		if i == len(cases)-1 {
			no = places[passed]
		}
		b.jump(unix.BPF_JEQ, c.number, places[c.outcome], no)
	}
}

// filter returns the deny list as a BPF program, which is never changed. Calls of a third architecture are refused.
var filter = sync.OnceValue(func() []unix.SockFilter {
	program := append([]unix.SockFilter{load(dataArch)}, native.filter()...)
	return append(append(program, compat.filter()...), refuse)
})

// filterCalls installs the deny list.
func (p *program) filterCalls() {
	instructions := filter()
	address(p, &instructions[0])
	prog := &unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	p.add("system calls", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, address(p, prog))
}
