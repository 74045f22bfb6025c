package isolation

import "golang.org/x/sys/unix"

const (
	nativeArch = unix.AUDIT_ARCH_AARCH64
	compatArch = unix.AUDIT_ARCH_ARM
)

// compatDenied is denied by the numbers of 32-bit ARM.
var compatDenied = []uint32{
	51, 79, 87, 88, 103, 111, 115, 124, 128, 129, 131, 169, 249, 262, 309, 310, 311, 347, 364, 371, 372, 379, 386, 388,
	401, 404, 405,
}
