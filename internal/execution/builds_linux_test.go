package execution_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"reprise/internal/execution"
	"reprise/internal/isolation"
)

// build is what a command makes from a few files, without any network.
type build struct {
	tool, command, want string
	files               map[string]string
	// homes are what a tool keeps in the home directory of who has installed it, with the variables that name it.
	homes map[string]string
}

var builds = []build{
	{
		tool: "make", command: "make -s && cat out", want: "made",
		files: map[string]string{"Makefile": "out: in\n\tcp in out\n", "in": "made\n"},
	},
	{
		tool: "git", command: "git init -q . && git add in && git -c user.name=a -c user.email=a@b commit -qm one && git clone -q . copy && cat copy/in",
		want: "kept", files: map[string]string{"in": "kept\n"},
	},
	{
		tool: "go", want: "built",
		command: "export GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-count=1; go test ./... >/dev/null && go run .",
		files: map[string]string{
			"go.mod": "module built\n\ngo 1.21\n", "main.go": "package main\n\nfunc main() { println(\"built\") }\n",
			"main_test.go": "package main\n\nimport (\"os\"; \"testing\")\n\nfunc TestTemp(t *testing.T) { if err := os.WriteFile(t.TempDir()+\"/x\", nil, 0o600); err != nil { t.Fatal(err) } }\n",
		},
	},
	{
		tool: "cc", command: "cc -o main main.c && ./main", want: "compiled",
		files: map[string]string{"main.c": "#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 0; }\n"},
	},
	{
		tool: "npm", command: "npm install --silent --offline --no-audit --no-fund ./dep && node -e 'console.log(require(\"dep\"))'",
		want: "installed", files: map[string]string{
			"package.json": `{"name":"main","version":"1.0.0"}`, "dep/package.json": `{"name":"dep","version":"1.0.0"}`,
			"dep/index.js": "module.exports = 'installed'\n",
		},
	},
	{
		tool: "python3", want: "imported",
		command: "$PYTHON -m pip install -q --no-index --no-deps --disable-pip-version-check --target lib dep-1.0-py3-none-any.whl && " +
			"PYTHONPATH=lib $PYTHON -c 'import dep; import multiprocessing; print(dep.word)'",
		homes: map[string]string{".pyenv": ""},
	},
	{
		tool: "cargo", command: "cargo run -q --offline", want: "hello",
		files: map[string]string{
			"Cargo.toml":  "[package]\nname = \"main\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
			"src/main.rs": "fn main() { println!(\"hello\") }\n",
		},
		homes: map[string]string{".cargo": "", ".rustup": "RUSTUP_HOME"},
	},
}

// wheel makes a package of Python, and returns the program behind the name, which may be a script that looks for it.
func wheel(t *testing.T, dir string) (python string) {
	t.Helper()
	const script = `import zipfile
z = zipfile.ZipFile("dep-1.0-py3-none-any.whl", "w")
z.writestr("dep.py", "word = 'imported'\n")
z.writestr("dep-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1.0\n")
z.writestr("dep-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
z.writestr("dep-1.0.dist-info/RECORD", "")
import sys
print(sys.executable)
`
	cmd := exec.Command("python3", "-c", script)
	cmd.Dir = dir
	program, err := cmd.Output()
	if err != nil {
		t.Skipf("python3 makes no package: %v", err)
	}
	if out, err := exec.Command("python3", "-m", "pip", "--version").CombinedOutput(); err != nil {
		t.Skipf("pip is missing: %s", out)
	}
	return strings.TrimSpace(string(program))
}

// TestOrdinaryBuilds: builds run at the levels that bound reading, with no more than what docs/isolation.md says.
func TestOrdinaryBuilds(t *testing.T) {
	rules := *isolation.Probe()
	rules.Mounts = os.ErrInvalid
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		level isolation.Level
		m     *isolation.Machine
	}{
		{"landlock_with_mounts", isolation.Landlock, isolation.Probe()},
		{"landlock_with_rules", isolation.Landlock, &rules},
		{"bubblewrap", isolation.Bubblewrap, isolation.Probe()},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := isolation.Config{Machine: c.m}
			if _, err := config.Resolve(c.level, isolation.Access{}); err != nil {
				t.Skip(err)
			}
			for _, b := range builds {
				t.Run(b.tool, func(t *testing.T) {
					if _, err := exec.LookPath(b.tool); err != nil {
						t.Skip(err)
					}
					b.check(t, config, c.level, home)
				})
			}
		})
	}
}

// check runs a build in a directory of its own.
func (b *build) check(t *testing.T, config isolation.Config, level isolation.Level, home string) {
	dir := t.TempDir()
	for name, text := range b.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{}
	switch b.tool {
	case "python3":
		env["PYTHON"] = wheel(t, dir)
	case "cargo":
		env["CARGO_HOME"] = filepath.Join(dir, "cargo")
	case "go": // without a cache it builds the standard library
		out, err := exec.Command("go", "env", "GOCACHE").Output()
		if err != nil {
			t.Fatal(err)
		}
		env["GOCACHE"] = strings.TrimSpace(string(out))
		config.Writable = []string{env["GOCACHE"]}
	}
	for name, variable := range b.homes {
		path := filepath.Join(home, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		config.Readable = append(config.Readable, path)
		if variable != "" {
			env[variable] = path
		}
	}
	h := newHost(t, execution.Options{Isolation: config})
	x := finish(t, h, start(t, h, execution.Request{
		Command: b.command, Cwd: dir, Isolation: string(level), Env: env,
	}).ID)
	out, said := string(output(t, h, x.ID, execution.Stdout)), string(output(t, h, x.ID, execution.Stderr))
	if code := x.ExitCode; code == nil || *code != 0 || !strings.Contains(out+said, b.want) {
		t.Errorf("%s%s", out, said)
	}
}
