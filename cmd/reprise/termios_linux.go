package main

import "golang.org/x/sys/unix"

// getTermios asks for the settings of a terminal; see ioctl_tty(2).
const getTermios = unix.TCGETS
