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

// The offsets in struct seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
)

// x32 marks numbers of the ABI of that name, which are calls of the same architecture on amd64.
const x32 = 0x40000000

// filter is the deny list as a BPF program. Calls of another architecture, such as 32-bit ones, are allowed
// only if that has a list of its own.
func filter() []unix.SockFilter {
	statement := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	load := func(offset uint32) unix.SockFilter { return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
	jump := func(test uint16, k uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: uint8(yes), Jf: uint8(no)}
	}
	refuse := statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))
	list := func(arch uint32, numbers []uint32) []unix.SockFilter {
		n := len(numbers)
		block := []unix.SockFilter{jump(unix.BPF_JEQ, arch, 0, n+4), load(dataNumber), jump(unix.BPF_JGE, x32, n+1, 0)}
		for i, number := range numbers {
			block = append(block, jump(unix.BPF_JEQ, number, n-i, 0))
		}
		return append(block, statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW), refuse)
	}
	program := append([]unix.SockFilter{load(dataArch)}, list(nativeArch, denied)...)
	program = append(program, list(compatArch, compatDenied)...)
	return append(program, refuse)
}

// filterCalls installs the deny list.
func (p *program) filterCalls() {
	instructions := filter()
	address(p, &instructions[0])
	prog := &unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}
	p.add("system calls", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, address(p, prog))
}
