package contentcoding

import (
	"net/http"
	"strconv"
	"strings"
)

// Coding is a content coding by its name.
type Coding string

// The codings that there are.
const (
	Identity Coding = "identity"
	Zstd     Coding = "zstd"
	Gzip     Coding = "gzip"
)

// Pick returns the coding that a client wants most by Accept-Encoding. A coding is used for clients that name it: "*"
// counts only for those that refuse identity. Where a client takes none of the three it gets Identity, which is what
// RFC 9110, section 12.1, calls to disregard the header.
//
// Where a client wants zstd and gzip equally, it gets gzip. Some decoders of zstd expect one frame, and fail at a live
// stream of frames: httpx asks for zstd by itself as soon as the package zstandard is installed, and raises an error
// when a read ends where a frame ends.
//
// The library requests for Python names codings by itself, and sseclient, a reader on it that is much in use, takes the
// bytes from below where they are decoded. So it gets Identity.
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

// offers are the codings that compress, the one that is taken where a client wants both equally first.
var offers = []Coding{Gzip, Zstd}

// parseAccept reads the weights of codings, and that of "*". A weight that is no number is 0.
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
