package otlp

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"reprise"
)

// Environment returns the value of an environment variable, "" if it is not set.
type Environment func(name string) string

// get returns the value of the first variable in names that is set.
func (e Environment) get(names ...string) string {
	for _, name := range names {
		if value := strings.TrimSpace(e("OTEL_" + name)); value != "" {
			return value
		}
	}
	return ""
}

// target returns the Target of a signal: endpoint or, if that is empty, the one that the variables name. It returns nil
// if the signal is not sent.
func (e Environment) target(signal, endpoint string) (*Target, error) {
	upper := strings.ToUpper(signal)
	own := "EXPORTER_OTLP_" + upper + "_"
	target := &Target{}
	if endpoint == "" {
		target.URL, endpoint = e.get(own+"ENDPOINT"), e.get("EXPORTER_OTLP_ENDPOINT")
	}
	if target.URL == "" && endpoint != "" {
		target.URL = signalURL(endpoint, signal)
	}
	if target.URL == "" || e.get(upper+"_EXPORTER") == "none" || strings.EqualFold(e.get("SDK_DISABLED"), "true") {
		return nil, nil
	}
	if p := e.get(own+"PROTOCOL", "EXPORTER_OTLP_PROTOCOL"); p == "grpc" {
		return nil, fmt.Errorf("%w: OTLP is spoken over HTTP alone: OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
			reprise.ErrInvalid)
	}
	var err error
	if target.Headers, err = pairs(e.get(own+"HEADERS", "EXPORTER_OTLP_HEADERS")); err != nil {
		return nil, fmt.Errorf("%w: OTEL_EXPORTER_OTLP_HEADERS", err)
	}
	target.Resource, err = e.resource()
	return target, err
}

// resource returns the attributes of this process.
func (e Environment) resource() (list []Attribute, err error) {
	resource, err := pairs(e.get("RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, fmt.Errorf("%w: OTEL_RESOURCE_ATTRIBUTES", err)
	}
	if name := e.get("SERVICE_NAME"); name != "" {
		resource["service.name"] = name
	} else if resource["service.name"] == "" {
		resource["service.name"] = "reprise"
	}
	for _, name := range slices.Sorted(maps.Keys(resource)) {
		list = append(list, Attribute{name, resource[name]})
	}
	return list, nil
}

// Tracer returns the options of a Tracer that the variables name (OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, their _HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
// OTEL_TRACES_SAMPLER_ARG, OTEL_TRACES_EXPORTER, OTEL_SDK_DISABLED). A non-empty endpoint takes precedence over theirs.
// Tracer returns nil if nothing is to be sent. The error wraps reprise.ErrInvalid.
func (e Environment) Tracer(endpoint string) (*TracerOptions, error) {
	target, err := e.target("traces", endpoint)
	if target == nil || err != nil {
		return nil, err
	}
	o := &TracerOptions{Target: *target, Ratio: 1}
	return o, o.sample(e.get("TRACES_SAMPLER"), e.get("TRACES_SAMPLER_ARG"))
}

// Meter returns the options of a Meter that the variables name: those of [Environment.Tracer] for metrics, and
// OTEL_METRIC_EXPORT_INTERVAL in milliseconds.
func (e Environment) Meter(endpoint string) (*MeterOptions, error) {
	target, err := e.target("metrics", endpoint)
	if target == nil || err != nil {
		return nil, err
	}
	o := &MeterOptions{Target: *target}
	if text := e.get("METRIC_EXPORT_INTERVAL"); text != "" {
		millis, err := strconv.ParseUint(text, 10, 31)
		if err != nil || millis == 0 {
			return nil, fmt.Errorf("%w: OTEL_METRIC_EXPORT_INTERVAL is a number of milliseconds", reprise.ErrInvalid)
		}
		o.Every = time.Duration(millis) * time.Millisecond
	}
	return o, nil
}

// sample sets the ratio. Every sampler follows the decision of the parent, if there is one.
func (o *TracerOptions) sample(sampler, arg string) (err error) {
	switch strings.TrimPrefix(sampler, "parentbased_") {
	case "", "always_on":
	case "always_off":
		o.Ratio = 0
	case "traceidratio":
		if arg == "" {
			return nil
		}
		if o.Ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(o.Ratio >= 0 && o.Ratio <= 1) {
			return fmt.Errorf("%w: OTEL_TRACES_SAMPLER_ARG is a number from 0 to 1", reprise.ErrInvalid)
		}
	default:
		return fmt.Errorf("%w: OTEL_TRACES_SAMPLER %.32q is not known", reprise.ErrInvalid, sampler)
	}
	return nil
}

// pairs parses "a=b,c=d". Values are percent-encoded.
func pairs(text string) (map[string]string, error) {
	list := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("%w: it is no list such as a=b,c=d", reprise.ErrInvalid)
		}
		list[name] = value
	}
	return list, nil
}
