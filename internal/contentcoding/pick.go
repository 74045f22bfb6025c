package contentcoding

import (
	"net/http"
	"strconv"
	"strings"
)

// Coding is a content coding by its name.
type Coding string

// The supported codings.
const (
	Identity Coding = "identity"
	Zstd     Coding = "zstd"
	Gzip     Coding = "gzip"
)

// Pick returns the coding that a client prefers by Accept-Encoding. A coding is used only if the client names it: "*"
// counts only for clients that refuse identity. If a client accepts none of the three, Pick returns Identity, as RFC
// 9110, section 12.1, permits (disregarding the header).
//
// If a client prefers zstd and gzip equally, Pick returns gzip. Some zstd decoders expect a single frame and fail on a
// live stream of frames: httpx asks for zstd as soon as the package zstandard is installed, and raises an error when a
// read ends at the end of a frame.
//
// The Python library requests names codings by default, and sseclient, a popular reader built on it, reads the bytes
// below the layer that decodes them. So that client gets Identity.
func Pick(h http.Header) Coding {
	if strings.HasPrefix(h.Get("User-Agent"), "python-requests/") {
		return Identity
	}
	weights, star := parseAccept(h.Values("Accept-Encoding"))
	identity, named := weights[Identity]
	best, most := Identity, 0.0
	for _, offer := range offers {
		if q := weights[offer]; q > most && q >= identity {
			best, most = offer, q
		}
	}
	if most > 0 || star <= 0 || !named || identity > 0 {
		return best
	}
	for _, offer := range offers {
		if _, listed := weights[offer]; !listed {
			return offer
		}
	}
	return Identity
}

// offers are the codings that compress, in order of preference for clients that want them equally.
var offers = []Coding{Gzip, Zstd}

// parseAccept returns the weights of the codings and that of "*". A weight that is not a number counts as 0.
func parseAccept(values []string) (weights map[Coding]float64, star float64) {
	weights = map[Coding]float64{}
	for entry := range strings.SplitSeq(strings.Join(values, ","), ",") {
		name, params, _ := strings.Cut(entry, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		q := weightOf(params)
		switch name {
		case "":
		case "*":
			star = q
		case "x-gzip": // RFC 9110, section 8.4.1.3
			weights[Gzip] = q
		case string(Identity), string(Zstd), string(Gzip):
			weights[Coding(name)] = q
		}
	}
	return weights, star
}

func weightOf(params string) float64 {
	name, value, ok := strings.Cut(strings.TrimSpace(params), "=")
	if !ok {
		return 1
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !strings.EqualFold(strings.TrimSpace(name), "q") || !(q >= 0 && q <= 1) {
		return 0
	}
	return q
}
