//go:build linux

package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestInstallScript: install.sh installs a release that its key has signed, and nothing of any other.
func TestInstallScript(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"ssh-keygen", "curl"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
			t.Skip("there is no " + program)
		}
	}
	dir := t.TempDir()
	sh := func(command string, args ...string) string {
		t.Helper()
		cmd := exec.Command("sh", append([]string{"-euc", command, "sh"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	name := "reprise_v1.2.3_linux_" + runtime.GOARCH
	sh(`for key in ours another; do ssh-keygen -q -t ed25519 -N "" -C "" -f $key; done
		mkdir -p release $1
		for program in reprise reprise-archive; do echo 'echo installed "$@"' >$1/$program; done
		sed -i '1i #!/bin/sh' $1/*
		tar -czf release/$1.tar.gz $1`, name)
	key := func(name string) string { return sh(`cut -d" " -f1,2 $1.pub`, name) }
	sign := func(with string) {
		archive, err := os.ReadFile(filepath.Join(dir, "release", name+".tar.gz"))
		check(t, err)
		sums := fmt.Sprintf("%x  ./%s.tar.gz\n", sha256.Sum256(archive), name)
		check(t, os.WriteFile(dir+"/release/SHA256SUMS", []byte(sums), 0o600))
		sh(`rm -f release/SHA256SUMS.sig; ssh-keygen -q -Y sign -n reprise-release -f $1 release/SHA256SUMS`, with)
	}
	script, err := filepath.Abs("../../scripts/install.sh")
	check(t, err)
	install := func(args ...string) (string, error) {
		check(t, os.RemoveAll(dir+"/bin"))
		args = append([]string{script, "--from", "file://" + dir + "/release/", "--to", dir + "/bin"}, args...)
		out, err := exec.Command("sh", args...).CombinedOutput()
		return string(out), err
	}
	sign("ours")
	if out, err := install("--signer", key("ours")); err != nil || !strings.HasPrefix(out, "installed version\n") {
		t.Fatalf("%v: %s", err, out)
	}
	refused := func(what, want string, args ...string) {
		t.Helper()
		out, err := install(args...)
		if _, there := os.Stat(dir + "/bin/reprise"); err == nil || there == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", what, err, out)
		}
	}
	refused("without a key", "who has signed it?")
	refused("another key", "is not by that key", "--signer", key("another"))
	sh(`cp release/$1.tar.gz kept; echo more >>release/$1.tar.gz`, name)
	refused("another archive", "the checksum of", "--signer", key("ours"))
	sh(`cp kept release/$1.tar.gz; echo >>release/SHA256SUMS`, name)
	refused("other sums", "is not by that key", "--signer", key("ours"))
	sign("another")
	refused("signed by another", "is not by that key", "--signer", key("ours"))
	sh(`rm release/SHA256SUMS.sig`)
	refused("not signed", "cannot be had", "--signer", key("ours"))
}
