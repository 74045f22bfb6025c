package main

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise/internal/testserver"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// deployed is the text of a file in examples/deploy/.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parsesAsServe fails the test unless args are flags that serve takes, and variables are those of flags of serve.
func parsesAsServe(t *testing.T, args, variables []string) {
	t.Helper()
	vars := kong.Vars{"state": "x", "gatewayState": "x", "parking": "true"}
	parser := kong.Must(new(cli), kong.DefaultEnvars("REPRISE"), vars)
	command, err := parser.Parse(args)
	if err != nil {
		t.Errorf("%q: %v", args, err)
		return
	}
	for _, name := range variables {
		sets := func(flag *kong.Flag) bool { return slices.Contains(flag.Envs, name) }
		if !slices.ContainsFunc(command.Flags(), sets) {
			t.Errorf("serve has no flag of the variable %s", name)
		}
	}
}

// repriseVariable finds variables of ours.
var repriseVariable = regexp.MustCompile(`\bREPRISE_[A-Z_]+`)

// TestUnitLetsCommandsOutliveServer: the unit has what commands need to outlive the server, its command line is one of
// serve, and systemd finds no mistake in it.
func TestUnitLetsCommandsOutliveServer(t *testing.T) {
	unit := deployed(t, "reprise.service")
	for _, want := range []string{
		"KillMode=process", "Delegate=yes", "Type=notify", "User=reprise", "WatchdogSec=30", "After=reprise.socket",
		"Environment=REPRISE_LEAST_ISOLATION=landlock REPRISE_WRITABLE=%S/reprise-work",
		"LoadCredential=token:/etc/reprise/secrets/token",
		"LoadCredential=keys:/etc/reprise/secrets/keys",
	} {
		if !slices.Contains(strings.Split(unit, "\n"), want) {
			t.Errorf("the unit lacks %s", want)
		}
	}
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/reprise (.*)$`).FindStringSubmatch(unit)
	if start == nil {
		t.Fatal("no command line")
	}
	parsesAsServe(t, strings.Fields(start[1]), repriseVariable.FindAllString(unit, -1))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := testserver.TempDir(t)
	path, socket := filepath.Join(dir, "reprise.service"), filepath.Join(dir, "reprise.socket")
	there := strings.ReplaceAll(unit, "/usr/local/bin/reprise", program)
	check(t, os.WriteFile(path, []byte(there), 0o600))
	check(t, os.WriteFile(socket, []byte(deployed(t, "reprise.socket")), 0o600))
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze is not installed: apt-get install systemd")
		}
		t.Skip("systemd-analyze is not installed")
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", path, socket).CombinedOutput()
	if err != nil || strings.Contains(string(out), "reprise.") {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

// TestContainersHaveKnownSettings: the files for containers are YAML with settings that serve knows and paths that it
// answers. No container is started here.
func TestContainersHaveKnownSettings(t *testing.T) {
	dockerfile := deployed(t, "Dockerfile")
	parsesAsServe(t, []string{"serve"}, repriseVariable.FindAllString(dockerfile, -1))
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(dockerfile) {
		t.Error("the image runs as root")
	}
	bases := regexp.MustCompile(`(?m)^FROM .*$`).FindAllString(dockerfile, -1)
	pinned := regexp.MustCompile(`@sha256:[0-9a-f]{64}( AS \w+)?$`)
	if len(bases) != 2 || !pinned.MatchString(bases[0]) || !pinned.MatchString(bases[1]) {
		t.Errorf("a base image is not pinned by digest: %q", bases)
	}
	if !strings.Contains(dockerfile, "\nENV REPRISE_LEAST_ISOLATION=landlock REPRISE_WRITABLE=/work\n") {
		t.Error("the image lets commands read everything")
	}
	var compose struct {
		Services map[string]struct {
			Profiles    []string
			Environment map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(deployed(t, "compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	for _, store := range []string{"sqlite", "redis", "postgres", "nats"} {
		service, ok := compose.Services["reprise-"+store]
		url := service.Environment["REPRISE_STORE"]
		right := slices.Equal(service.Profiles, []string{store}) && (url == "" || strings.HasPrefix(url, store+"://"))
		if !ok || !right {
			t.Errorf("%s: %+v", store, service)
		}
	}
	if strings.Contains(deployed(t, "compose.yaml"), ":?") {
		t.Error("a variable that compose.yaml requires for one store is required with every profile")
	}
	decoder := yaml.NewDecoder(strings.NewReader(deployed(t, "kubernetes/reprise.yaml")))
	kinds := 0
	for {
		var manifest struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Spec       struct {
				Template struct{ Spec podSpec }
			}
		}
		if err := decoder.Decode(&manifest); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds++
		if manifest.APIVersion == "" || manifest.Kind == "" {
			t.Errorf("manifest %d: %+v", kinds, manifest)
		}
		for _, c := range manifest.Spec.Template.Spec.Containers {
			var variables []string
			for _, env := range c.Env {
				variables = append(variables, env.Name)
			}
			parsesAsServe(t, c.Args, variables)
			if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
				t.Errorf("probes at %q and %q", c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path)
			}
		}
	}
	if kinds != 3 {
		t.Errorf("%d manifests, want 3", kinds)
	}
}

// podSpec is what is looked at of a pod.
type podSpec struct {
	Containers []struct {
		Args           []string
		Env            []struct{ Name string }
		LivenessProbe  probe `yaml:"livenessProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
	}
}

type probe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

// serviceManager hears what a server tells the service manager.
type serviceManager struct {
	t      *testing.T
	socket *net.UnixConn
	env    string // the variable for the server
}

func newServiceManager(t *testing.T, dir string) *serviceManager {
	t.Helper()
	name := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	check(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	check(t, socket.SetReadDeadline(time.Now().Add(patience)))
	return &serviceManager{t: t, socket: socket, env: "NOTIFY_SOCKET=" + name}
}

// told returns what the server says next.
func (m *serviceManager) told() string {
	m.t.Helper()
	text := make([]byte, 100)
	n, err := m.socket.Read(text)
	check(m.t, err)
	return string(text[:n])
}

// TestServiceManagerIsTold: the server says when it is ready and that it stops.
func TestServiceManagerIsTold(t *testing.T) {
	dir := testserver.TempDir(t)
	manager := newServiceManager(t, dir)
	d, err := startDaemon(append(os.Environ(), manager.env), dir, filepath.Join(dir, "log"),
		"--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
	check(t, err)
	t.Cleanup(func() { _ = d.kill() })
	if got := manager.told(); got != "READY=1" {
		t.Errorf("told %q at the start", got)
	}
	check(t, d.cmd.Process.Signal(os.Interrupt))
	if got := manager.told(); got != "STOPPING=1" {
		t.Errorf("told %q at the end", got)
	}
}
