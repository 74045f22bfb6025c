//go:build amd64 || arm64

package isolation

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// runFilter runs a program of the instructions that a filter has, and counts the steps.
func runFilter(t *testing.T, program []unix.SockFilter, arch, number, argument uint32) (action uint32, steps int) {
	t.Helper()
	var accumulator uint32
	for at := 0; ; at++ {
		i := program[at]
		steps++
		holds := false
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			accumulator = map[uint32]uint32{dataNumber: number, dataArch: arch, dataArgument: argument}[i.K]
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K, steps
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			holds = accumulator == i.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			holds = accumulator >= i.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			holds = accumulator&i.K != 0
		default:
			t.Fatalf("instruction %d: %+v", at, i)
		}
		if holds {
			at += int(i.Jt)
		} else {
			at += int(i.Jf)
		}
	}
}

// fewSteps is how many instructions decide about a call. The kernel follows the filter of each command for all numbers,
// so that a comparison with each denied call, one after the other, would take a tenth of a millisecond a command.
const fewSteps = 18

func TestFilterFindsEachCallInFewSteps(t *testing.T) {
	for _, a := range []abi{native, compat} {
		for number := range uint32(600) {
			for _, argument := range []uint32{0, 1, 2, 3, unix.CLONE_NEWUSER, unix.CLONE_NEWCGROUP} {
				want := pass.K
				switch {
				case slices.Contains(a.denied, number):
					want = refuse.K
				case slices.Contains(unavailable, number):
					want = absent.K
				case number == a.prlimit && argument != 0:
					want = refuse.K
				case (number == a.setpriority || number == a.ioprioSet) && argument >= 2:
					want = refuse.K
				case (number == a.clone || number == a.unshare) && argument == unix.CLONE_NEWCGROUP:
					want = refuse.K
				}
				got, steps := runFilter(t, filter(), a.arch, number, argument)
				if got != want {
					t.Errorf("call %d of architecture %#x with %#x: %#x, not %#x", number, a.arch, argument, got, want)
				}
				if steps > fewSteps {
					t.Errorf("call %d of architecture %#x takes %d steps", number, a.arch, steps)
				}
			}
		}
		if got, _ := runFilter(t, filter(), a.arch, x32|1, 0); got != refuse.K {
			t.Errorf("call 1 of the ABI x32: %#x", got)
		}
	}
	if got, _ := runFilter(t, filter(), 1, 1, 0); got != refuse.K {
		t.Errorf("call of another architecture: %#x", got)
	}
}
