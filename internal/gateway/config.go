package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"reprise"
	"reprise/internal/gateway/credential"
)

// Route is an upstream and the path at which it is served.
type Route struct {
	// Path is the path of the endpoint, for example "/files".
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
	Path           string `yaml:"path"`
	fileServer     `yaml:",inline"`
	Merge          map[string]fileServer `yaml:"merge"`
	Shared         bool                  `yaml:"shared"`
	KeepsState     bool                  `yaml:"keeps_state"`
	Timeout        time.Duration         `yaml:"timeout"`
	StartTimeout   time.Duration         `yaml:"start_timeout"`
	MaxConnections int                   `yaml:"max_connections"`
	MaxCalls       int                   `yaml:"max_calls"`
	Idle           time.Duration         `yaml:"idle"`
}

// fileServer is the address of a server in the file: a command or a URL, with its settings.
type fileServer struct {
	Command []string          `yaml:"command"`
	Dir     string            `yaml:"dir"`
	Env     map[string]string `yaml:"env"`
	PassEnv []string          `yaml:"pass_env"`
	URL     string            `yaml:"url"`
	Header  map[string]string `yaml:"header"`
}

// ReadConfig reads a configuration file of YAML; see docs/gateway.md. Fields that it does not know are refused. The
// routes are in the order of their names. The error is reprise.ErrInvalid if the configuration is not valid.
func ReadConfig(r io.Reader) ([]Route, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfig {
		return nil, invalidConfig("the configuration is longer than %d bytes", maxConfig)
	}
	in := yaml.NewDecoder(strings.NewReader(string(text)))
	in.KnownFields(true)
	var file fileConfig
	if err := in.Decode(&file); err != nil {
		return nil, invalidConfig("configuration: %w", err)
	}
	if err := in.Decode(&fileConfig{}); !errors.Is(err, io.EOF) {
		return nil, invalidConfig("configuration: there is more than one document")
	}
	if len(file.Upstreams) == 0 {
		return nil, invalidConfig("configuration: there are no upstreams")
	}
	return file.routes()
}

// invalidConfig returns a reprise.ErrInvalid.
func invalidConfig(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{reprise.ErrInvalid}, args...)...)
}

// routes returns the routes in the order of their names.
func (file *fileConfig) routes() (routes []Route, err error) {
	for _, name := range slices.Sorted(maps.Keys(file.Upstreams)) {
		route, err := file.Upstreams[name].route(name)
		if err != nil {
			return nil, err
		}
		for _, other := range routes {
			if other.Path == route.Path {
				return nil, invalidConfig("upstreams %s and %s have the same path", other.Name, name)
			}
		}
		routes = append(routes, route)
	}
	return routes, nil
}

// names matches the names of upstreams, which are part of the names of streams.
var names = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)
})

// taken are the paths that the server itself serves.
var taken = []string{"/", "/healthz", "/readyz", "/metrics"}

// managed is below which the server itself answers, too.
const managed = "/v1"

// route returns the route of the upstream with a name.
func (u fileUpstream) route(name string) (Route, error) {
	route := Route{Path: u.Path, Upstream: Upstream{
		Shared: u.Shared, KeepsState: u.KeepsState,
		Timeout: u.Timeout, StartTimeout: u.StartTimeout,
		MaxConnections: u.MaxConnections, MaxCalls: u.MaxCalls, Idle: u.Idle,
	}}
	route.Path = cmp.Or(route.Path, "/"+name)
	if !names().MatchString(name) {
		return Route{}, invalidConfig("the name of upstream %q is not 1 to 32 letters, digits, '.', '_' and '-'", name)
	}
	if !canServe(route.Path) {
		return Route{}, invalidConfig("upstream %s: the path %q cannot be served", name, route.Path)
	}
	if err := u.fill(name, &route.Upstream); err != nil {
		return Route{}, err
	}
	for _, member := range slices.Sorted(maps.Keys(u.Merge)) {
		var m Upstream
		if err := u.Merge[member].fill(member, &m); err != nil {
			return Route{}, err
		}
		route.Merge = append(route.Merge, m)
	}
	if err := route.validate(); err != nil {
		return Route{}, err
	}
	return route, nil
}

// fill sets where an upstream is.
func (s fileServer) fill(name string, u *Upstream) (err error) {
	u.Name, u.Command, u.Dir, u.PassEnv, u.URL = name, s.Command, s.Dir, s.PassEnv, s.URL
	if u.Env, err = expandAll(name, s.Env); err != nil {
		return err
	}
	u.Header, err = expandAll(name, s.Header)
	return err
}

// canServe reports whether an upstream may be served at a path.
func canServe(at string) bool {
	return path.Clean(at) == at && at[0] == '/' && !slices.Contains(taken, at) && !strings.ContainsAny(at, "{} ?#%") &&
		at != managed && !strings.HasPrefix(at, managed+"/")
}

var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
})

// expandAll replaces ${NAME} by the variable of this process, so that secrets need not be in the file.
func expandAll(name string, values map[string]string) (map[string]string, error) {
	expanded := make(map[string]string, len(values))
	for key, value := range values {
		missing := ""
		expanded[key] = reference().ReplaceAllStringFunc(value, func(ref string) string {
			variable := ref[2 : len(ref)-1]
			v, ok := os.LookupEnv(variable)
			if !ok {
				missing = variable
			}
			return credential.Escape(v) // the value of the variable is not a template
		})
		if missing != "" {
			return nil, invalidConfig("upstream %s: %s needs the variable %s, which is not set", name, key, missing)
		}
	}
	return expanded, nil
}
