package otlp

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"reprise"
)

// FromEnvironment returns the options that the variables of OpenTelemetry name (OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, their _HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
// OTEL_TRACES_SAMPLER_ARG, OTEL_TRACES_EXPORTER, OTEL_SDK_DISABLED), with endpoint in front of theirs. It returns nil
// where nothing is to be sent. The error wraps reprise.ErrInvalid.
func FromEnvironment(environ func(string) string, endpoint string) (*Options, error) {
	get := func(names ...string) string {
		for _, name := range names {
			if value := strings.TrimSpace(environ("OTEL_" + name)); value != "" {
				return value
			}
		}
		return ""
	}
	o := &Options{Endpoint: endpoint, Ratio: 1}
	if endpoint == "" {
		o.Endpoint, o.Traces = get("EXPORTER_OTLP_ENDPOINT"), get("EXPORTER_OTLP_TRACES_ENDPOINT")
	}
	if o.Endpoint == "" && o.Traces == "" || get("TRACES_EXPORTER") == "none" ||
		strings.EqualFold(get("SDK_DISABLED"), "true") {
		return nil, nil
	}
	if p := get("EXPORTER_OTLP_TRACES_PROTOCOL", "EXPORTER_OTLP_PROTOCOL"); p == "grpc" {
		return nil, fmt.Errorf("%w: OTLP is spoken over HTTP alone: OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
			reprise.ErrInvalid)
	}
	var err error
	if o.Headers, err = pairs(get("EXPORTER_OTLP_TRACES_HEADERS", "EXPORTER_OTLP_HEADERS")); err != nil {
		return nil, fmt.Errorf("%w: OTEL_EXPORTER_OTLP_HEADERS", err)
	}
	resource, err := pairs(get("RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, fmt.Errorf("%w: OTEL_RESOURCE_ATTRIBUTES", err)
	}
	if name := get("SERVICE_NAME"); name != "" || resource["service.name"] == "" {
		if name == "" {
			name = "reprise"
		}
		resource["service.name"] = name
	}
	for name, value := range resource {
		o.Resource = append(o.Resource, Attribute{name, value})
	}
	return o, o.sample(get("TRACES_SAMPLER"), get("TRACES_SAMPLER_ARG"))
}

// sample sets the ratio. All samplers go by the parent, where there is one.
func (o *Options) sample(sampler, arg string) (err error) {
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

// pairs reads "a=b,c=d", with values that are escaped as in URLs.
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
