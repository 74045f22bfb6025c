package gateway

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"reprise"

	"go.yaml.in/yaml/v3"
)

// Route is an upstream and where it is served.
type Route struct {
	// Path is that of the endpoint, for example "/files".
	Path string
	Upstream
}

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// fileConfig is a configuration file.
type fileConfig struct {
	Upstreams map[string]fileUpstream `yaml:"upstreams"`
}

type fileUpstream struct {
	Path           string            `yaml:"path"`
	Command        []string          `yaml:"command"`
	Dir            string            `yaml:"dir"`
	Env            map[string]string `yaml:"env"`
	PassEnv        []string          `yaml:"pass_env"`
	URL            string            `yaml:"url"`
	Header         map[string]string `yaml:"header"`
	Shared         bool              `yaml:"shared"`
	KeepsState     bool              `yaml:"keeps_state"`
	Timeout        time.Duration     `yaml:"timeout"`
	StartTimeout   time.Duration     `yaml:"start_timeout"`
	MaxConnections int               `yaml:"max_connections"`
	MaxCalls       int               `yaml:"max_calls"`
	Idle           time.Duration     `yaml:"idle"`
}

// ReadConfig reads a configuration file of YAML; see docs/gateway.md. Fields that it does not know are refused. The routes are in the order
// of their names. The error is reprise.ErrInvalid for what makes no sense.
func ReadConfig(r io.Reader) ([]Route, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfig {
		return nil, fmt.Errorf("%w: the configuration is longer than %d bytes", reprise.ErrInvalid, maxConfig)
	}
	in := yaml.NewDecoder(strings.NewReader(string(text)))
	in.KnownFields(true)
	var file fileConfig
	if err := in.Decode(&file); err != nil {
		return nil, fmt.Errorf("%w: configuration: %w", reprise.ErrInvalid, err)
	}
	if err := in.Decode(&fileConfig{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: configuration: there is more than one document", reprise.ErrInvalid)
	}
	if len(file.Upstreams) == 0 {
		return nil, fmt.Errorf("%w: configuration: there are no upstreams", reprise.ErrInvalid)
	}
	var routes []Route
	for _, name := range slices.Sorted(maps.Keys(file.Upstreams)) {
		route, err := file.Upstreams[name].route(name)
		if err != nil {
			return nil, err
		}
		for _, other := range routes {
			if other.Path == route.Path {
				return nil, fmt.Errorf("%w: upstreams %s and %s have the same path", reprise.ErrInvalid, other.Name, name)
			}
		}
		routes = append(routes, route)
	}
	return routes, nil
}

// names are those of upstreams: they are part of the names of streams.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// taken are paths that the server itself answers.
var taken = []string{"/", "/healthz", "/readyz", "/metrics"}

func (u fileUpstream) route(name string) (Route, error) {
	route := Route{Path: u.Path, Upstream: Upstream{
		Name: name, Command: u.Command, Dir: u.Dir, PassEnv: u.PassEnv, URL: u.URL, Shared: u.Shared, KeepsState: u.KeepsState,
		Timeout: u.Timeout, StartTimeout: u.StartTimeout, MaxConnections: u.MaxConnections, MaxCalls: u.MaxCalls, Idle: u.Idle,
	}}
	orDefault(&route.Path, "/"+name)
	if !names.MatchString(name) {
		return Route{}, fmt.Errorf("%w: the name of upstream %q is not 1 to 32 letters, digits, '.', '_' and '-'", reprise.ErrInvalid, name)
	}
	if path.Clean(route.Path) != route.Path || route.Path[0] != '/' || slices.Contains(taken, route.Path) || strings.ContainsAny(route.Path, "{} ?#%") {
		return Route{}, fmt.Errorf("%w: upstream %s: the path %q cannot be served", reprise.ErrInvalid, name, route.Path)
	}
	var err error
	if route.Env, err = expandAll(name, u.Env); err != nil {
		return Route{}, err
	}
	if route.Header, err = expandAll(name, u.Header); err != nil {
		return Route{}, err
	}
	if err := route.validate(); err != nil {
		return Route{}, err
	}
	return route, nil
}

var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expandAll puts variables of our own environment in the place of ${NAME}, so that secrets need not be in the file.
func expandAll(name string, values map[string]string) (map[string]string, error) {
	expanded := make(map[string]string, len(values))
	for key, value := range values {
		missing := ""
		expanded[key] = reference.ReplaceAllStringFunc(value, func(ref string) string {
			variable := ref[2 : len(ref)-1]
			v, ok := os.LookupEnv(variable)
			if !ok {
				missing = variable
			}
			return v
		})
		if missing != "" {
			return nil, fmt.Errorf("%w: upstream %s: %s needs the variable %s, which is not set", reprise.ErrInvalid, name, key, missing)
		}
	}
	return expanded, nil
}

// Calls is how many requests of clients have no answer yet.
func (g *Gateway) Calls() int {
	g.mu.Lock()
	slots := slices.Collect(maps.Values(g.slots))
	g.mu.Unlock()
	n := 0
	for _, s := range slots {
		if p := s.live(); p != nil {
			n += p.outstanding()
		}
	}
	return n
}

func (p *peer) outstanding() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c.f != nil && c.listens == nil {
			n++
		}
	}
	return n
}
