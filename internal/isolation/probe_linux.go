//go:build amd64 || arm64

package isolation

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// probe tries every layer in a child that does nothing else.
func probe() *Machine {
	m := &Machine{Given: Given{Root: os.Geteuid() == 0, Landlock: landlockVersion(), OpenFiles: softOpenFiles()}}
	try := func(what func(*program)) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var p program
		defer p.close()
		what(&p)
		p.exit()
		pid, err := p.run(-1, false)
		if err == nil {
			_, err = unix.Wait4(pid, nil, 0, nil)
		}
		return err
	}
	if m.Start = try(func(*program) {}); m.Start != nil {
		m.Mounts, m.Network, m.SystemCalls, m.Capabilities, m.SwitchUser = m.Start, m.Start, m.Start, m.Start, m.Start
		return m
	}
	m.Cgroups, m.Disks, m.Settings = cgroupMounts(), disks(), settings()
	m.UserNamespace = !m.Root
	dumpable := isDumpable()
	m.Mounts = try(func(p *program) {
		pl := &Plan{Given: m.Given, Layers: Layers{Hidden: ByMounts}}
		if mask, err := maskAt("/proc"); err == nil {
			pl.Masks = []Mask{mask}
		}
		p.namespaces(pl)
		p.mounts(pl)
	})
	if m.Mounts == nil {
		view := Layers{Hidden: ByMounts, Readable: ByMounts}
		m.Views = try(func(p *program) { p.tryView(m, view) })
		view.Signals = ByPIDNamespace
		m.Processes = cmp.Or(m.Views, try(func(p *program) { p.tryView(m, view) }))
	}
	m.Network = try(func(p *program) {
		p.namespaces(&Plan{Given: m.Given, Layers: Layers{Network: Off}})
		p.loopback()
	})
	if isDumpable() != dumpable {
		_ = setDumpable(dumpable)
	}
	m.SystemCalls = try(func(p *program) {
		p.add("no new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
		p.filterCalls()
	})
	m.Capabilities = try(func(p *program) {
		pl := &Plan{Given: m.Given, Layers: Layers{Capabilities: EmptySet}}
		if m.Root && !hasCapability(unix.CAP_SETPCAP) { // root gains all capabilities in the bounding set by exec
			p.fail("CAP_SETPCAP")
		}
		p.dropBounding(pl)
		p.dropCapabilities(pl)
	})
	m.SwitchUser = try(func(p *program) { p.switchUser(&User{UID: 65534, GID: 65534}) })
	return m
}

// tryView adds a view, with other layers.
func (p *program) tryView(m *Machine, layers Layers) {
	pl := &Plan{Given: m.Given, Layers: layers, Own: []string{"/tmp"}}
	f, err := pl.forest("/")
	if err != nil || p.surround(pl, f, -1) != nil {
		p.fail("view")
	}
}

// softOpenFiles is the bound on open files that our commands had without us: Go raises its own and gives children that
// it starts itself the old one. 0 means not known.
func softOpenFiles() uint64 {
	cmd := exec.Command("/bin/sh", "-c", "ulimit -Sn")
	out, err := cmd.Output()
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64) // "unlimited" is 0
	return n
}

// cgroupMounts are where cgroup file systems are mounted.
func cgroupMounts() (paths []string) {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); len(fields) > 4 && strings.HasPrefix(after, "cgroup") {
			paths = append(paths, unescape(fields[4]))
		}
	}
	return paths
}

// unescape undoes the octal escapes of proc_pid_mountinfo(5).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// settings are where root changes the kernel without a capability: core_pattern alone names a program that the kernel
// runs outside of all namespaces. Others may not write there.
func settings() (paths []string) {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/bus", "/sys"} {
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// diskPassages are character devices over which disks can be read.
var diskPassages = regexp.MustCompile(`^/dev/(bsg/|raw/|(sg|nvme|ng|mtd|dax)[0-9])`)

// disks are the devices below /dev over which root reads past all files. Others may not open them.
func disks() (paths []string) {
	if os.Geteuid() != 0 {
		return nil
	}
	_ = filepath.WalkDir("/dev", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil, entry.IsDir() && (path == "/dev/shm" || path == "/dev/pts"):
			return fs.SkipDir
		case entry.Type()&fs.ModeDevice != 0 &&
			(entry.Type()&fs.ModeCharDevice == 0 || diskPassages.MatchString(path)):
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}
