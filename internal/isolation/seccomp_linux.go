//go:build amd64 || arm64

package isolation

import (
	"golang.org/x/sys/unix"
)

// denied are the system calls that no build makes and that have been ways out: they load code into the
// kernel, change the machine, share keys between all processes of a user, or open files by their number.
var denied = []uint32{
	unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_ADJTIMEX, unix.SYS_BPF, unix.SYS_CLOCK_ADJTIME, unix.SYS_CLOCK_SETTIME,
	unix.SYS_DELETE_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_INIT_MODULE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD,
	unix.SYS_KEYCTL, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_QUOTACTL, unix.SYS_REBOOT, unix.SYS_REQUEST_KEY, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF, unix.SYS_SWAPON,
	unix.SYS_SYSLOG, unix.SYS_USERFAULTFD, unix.SYS_VHANGUP,
}

// Offsets in struct seccomp_data; the last one is that of the lower half of the first argument.
const (
	dataNumber   = 0
	dataArch     = 4
	dataArgument = 16
)

// x32 marks numbers of the ABI of that name, which are calls of the same architecture on amd64.
const x32 = 0x40000000

// abi is the numbers of system calls of an architecture.
type abi struct {
	arch           uint32
	denied         []uint32
	clone, unshare uint32
}

// clone3 has the same number everywhere.
const clone3 = unix.SYS_CLONE3

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
// together with a new user namespace, a process can mount its cgroup again and write to it. A filter cannot see the
// arguments of clone3, so clone3 is refused; the C libraries then use clone.
func (a *abi) filter() []unix.SockFilter {
	tail := 3 + len(a.denied)
	refused, missing, flags, end := tail+7, tail+8, tail+4, tail+9
	var block []unix.SockFilter
	jump := func(test uint16, k uint32, yes, no int) { // to places in block
		at := len(block) + 1
		block = append(block, unix.SockFilter{
			Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: uint8(yes - at), Jf: uint8(no - at),
		})
	}
	jump(unix.BPF_JEQ, a.arch, 1, end)
	block = append(block, load(dataNumber))
	jump(unix.BPF_JGE, x32, refused, 3)
	for _, number := range a.denied {
		jump(unix.BPF_JEQ, number, refused, len(block)+1)
	}
	jump(unix.BPF_JEQ, clone3, missing, tail+1)
	jump(unix.BPF_JEQ, a.unshare, flags, tail+2)
	jump(unix.BPF_JEQ, a.clone, flags, tail+3)
	block = append(block, pass, load(dataArgument))
	jump(unix.BPF_JSET, unix.CLONE_NEWCGROUP, refused, tail+6)
	return append(block, pass, refuse, absent)
}

// filter is the deny list as a BPF program. Calls of a third architecture are refused.
func filter() []unix.SockFilter {
	native := abi{arch: nativeArch, denied: denied, clone: unix.SYS_CLONE, unshare: unix.SYS_UNSHARE}
	program := append([]unix.SockFilter{load(dataArch)}, native.filter()...)
	return append(append(program, compat.filter()...), refuse)
}

// filterCalls installs the deny list.
func (p *program) filterCalls() {
	instructions := filter()
	address(p, &instructions[0])
	prog := &unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	p.add("system calls", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, address(p, prog))
}
