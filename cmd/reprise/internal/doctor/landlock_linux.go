package doctor

import "golang.org/x/sys/unix"

// landlockVersion is the version of Landlock in the kernel; see landlock_create_ruleset(2).
func landlockVersion() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(version), nil
}
