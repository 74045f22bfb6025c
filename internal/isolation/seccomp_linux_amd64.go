package isolation

import "golang.org/x/sys/unix"

const (
	nativeArch = unix.AUDIT_ARCH_X86_64
	compatArch = unix.AUDIT_ARCH_I386
)

// compatDenied is denied by the numbers of i386, with stime.
var compatDenied = []uint32{
	25, 51, 79, 87, 88, 103, 111, 115, 124, 128, 129, 131, 169, 253, 264, 283, 286, 287, 288, 336, 342, 343, 350, 357,
	374, 404, 405,
}
