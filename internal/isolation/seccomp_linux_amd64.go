package isolation

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_X86_64

// compat is i386.
var compat = abi{
	arch: unix.AUDIT_ARCH_I386, clone: 120, unshare: 310, prlimit: 340,
	setpriority: 97, ioprioSet: 289,
	denied: []uint32{
		25, 51, 79, 87, 88, 103, 111, 115, 124, 128, 129, 131, 169, 253,
		264, 283, 286, 287, 288, 336, 342, 343, 347, 348, 349, 350, 357, 374, 404, 405, 438,
	},
}
