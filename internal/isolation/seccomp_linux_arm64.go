package isolation

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_AARCH64

// compat is 32-bit ARM.
var compat = abi{
	arch: unix.AUDIT_ARCH_ARM, clone: 120, unshare: 337, prlimit: 369,
	setpriority: 97, ioprioSet: 314,
	denied: []uint32{
		51, 79, 87, 88, 103, 111, 115, 124, 128, 129, 131, 169, 249, 262,
		309, 310, 311, 347, 364, 371, 372, 376, 377, 378, 379, 386, 388, 401, 404, 405, 438,
	},
}
