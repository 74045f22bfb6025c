package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"reprise"
)

// driverParameters are the parameters that the driver reads from the URL itself.
var driverParameters = []string{"addr", "db", "master_set", "skip_verify"}

// parseURL sets opts from the parameters of a URL and returns the options of the driver. Its errors do not quote parts
// that may contain a password.
func parseURL(text string, opts *Options) (rueidis.ClientOption, error) {
	u, err := url.Parse(text)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("%w: the store is not named by a URL such as redis://user:password@host:6379/0",
			reprise.ErrInvalid)
	}
	q, mine := u.Query(), url.Values{}
	for name, values := range q {
		if !slices.Contains(driverParameters, name) {
			mine[name] = values
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	driver, err := rueidis.ParseURL(u.String())
	if err != nil {
		return driver, fmt.Errorf("%w: URL of the store: %w", reprise.ErrInvalid, err)
	}
	for name, values := range mine {
		set := parameters[name]
		if set == nil || len(values) != 1 {
			return driver, fmt.Errorf("%w: URL of the store: parameter %q is unknown or repeated",
				reprise.ErrInvalid, name)
		}
		if err := set(opts, values[0]); err != nil {
			return driver, fmt.Errorf("%w: URL of the store: %s: %w", reprise.ErrInvalid, name, err)
		}
	}
	if (reprise.StreamKey{Tenant: reprise.Tenant(opts.Prefix), Name: "x"}).Validate() != nil {
		return driver, fmt.Errorf("%w: prefix %q: 1 to 64 letters, digits, '.', '_' and '-' are taken",
			reprise.ErrInvalid, opts.Prefix)
	}
	if err := certificates(&driver, opts); err != nil {
		return driver, fmt.Errorf("%w: URL of the store: %w", reprise.ErrInvalid, err)
	}
	tune(&driver, opts)
	return driver, nil
}

// parameters are the parameters of the URL that set an option.
var parameters = map[string]func(o *Options, value string) error{
	"prefix": func(o *Options, v string) error { o.Prefix = v; return nil },
	"timeout": func(o *Options, v string) (err error) {
		if o.Timeout, err = time.ParseDuration(v); err == nil && o.Timeout < time.Millisecond {
			err = fmt.Errorf("%v is too short", o.Timeout)
		}
		return err
	},
	"ttl": func(o *Options, v string) (err error) {
		if o.TTL, err = time.ParseDuration(v); err == nil && o.TTL < time.Minute {
			err = fmt.Errorf("%v is less than a minute", o.TTL)
		}
		return err
	},
	"wait": func(o *Options, v string) error {
		n, err := strconv.ParseUint(v, 10, 8)
		o.Wait = int(n)
		return err
	},
	"restart": func(o *Options, v string) error {
		at := slices.Index([]string{RestartAuto: "auto", RestartLoses: "loses", RestartKeeps: "keeps"}, v)
		if at < 0 {
			return fmt.Errorf("%q is not auto, loses or keeps", v)
		}
		o.Restart = Restart(at)
		return nil
	},
	"sentinel_auth": func(o *Options, v string) (err error) { o.sentinelAuth, err = strconv.ParseBool(v); return err },
	"ca":            func(o *Options, v string) error { o.caFile = v; return nil },
	"cert":          func(o *Options, v string) error { o.certFile = v; return nil },
	"key":           func(o *Options, v string) error { o.keyFile = v; return nil },
}

// certificates reads the files that the URL names.
func certificates(driver *rueidis.ClientOption, opts *Options) error {
	if opts.caFile == "" && opts.certFile == "" && opts.keyFile == "" {
		return nil
	}
	if driver.TLSConfig == nil {
		return fmt.Errorf("certificates are for rediss:// alone")
	}
	if opts.caFile != "" {
		pem, err := os.ReadFile(opts.caFile)
		if err != nil {
			return err
		}
		driver.TLSConfig.RootCAs = x509.NewCertPool()
		if !driver.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s: no certificate in it", opts.caFile)
		}
	}
	if opts.certFile != "" || opts.keyFile != "" {
		pair, err := tls.LoadX509KeyPair(opts.certFile, opts.keyFile)
		if err != nil {
			return err
		}
		driver.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// tune sets the driver options that users cannot choose.
func tune(driver *rueidis.ClientOption, opts *Options) {
	driver.ClientName = "reprise"
	driver.DisableCache = true
	driver.AlwaysPipelining = true // so that a lost connection is noticed at once, not at the next append
	driver.ConnWriteTimeout = opts.Timeout
	driver.Dialer.Timeout = min(opts.Timeout, 5*time.Second)
	driver.PipelineMultiplex = 1 // two connections: appends use one, while the other transfers a long page
	driver.BlockingPoolSize = 16
	driver.BlockingPoolCleanup = time.Minute
	// The driver retries reads only, and not for long. The Log decides about further retries.
	driver.RetryDelay = func(attempts int, _ rueidis.Completed, _ error) time.Duration {
		if attempts > 3 {
			return -1
		}
		return time.Duration(attempts) * 5 * time.Millisecond
	}
	if opts.sentinelAuth {
		driver.Sentinel.Username, driver.Sentinel.Password = driver.Username, driver.Password
	}
	if driver.Sentinel.MasterSet != "" && driver.TLSConfig != nil {
		driver.Sentinel.TLSConfig = driver.TLSConfig
	}
}
