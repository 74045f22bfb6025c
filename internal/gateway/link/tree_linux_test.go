package link

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"reprise/internal/headless"
)

func TestMain(m *testing.M) {
	headless.Run()
	m.Run()
}

// TestProcessWhoseFirstThreadHasEndedIsKilled finds it by its mark.
func TestProcessWhoseFirstThreadHasEndedIsKilled(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := "test-" + strconv.Itoa(os.Getpid()) // another run may be beside this one
	mark := name + "/headless"
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{headless.Env + "=" + headless.Quiet, markName + "=" + mark}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if len(treeOf(0, mark)) != 1 || !KillMarked(name) || len(treeOf(cmd.Process.Pid, mark)) != 0 {
		t.Error("it is not killed")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
