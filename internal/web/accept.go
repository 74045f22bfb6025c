package web

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// AsksForEvents reports whether the client names a type of a response that goes on. Which one it prefers is not looked
// at.
func AsksForEvents(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, SSE) || strings.Contains(accept, NDJSON)
}

// Accepts selects the media type that the client prefers among the offered ones, as in RFC 9110, section 12.5.1. The
// first one is the default for a client without a preference: a stream must be requested explicitly. Among types of
// equal weight, an explicitly named stream type precedes the first one, because a client that names it can follow it.
func Accepts(r *http.Request, offered ...string) (string, error) {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if i := slices.Index(offered, header); i >= 0 { // which needs no parsing
		return offered[i], nil
	}
	if strings.TrimSpace(header) == "" {
		return offered[0], nil
	}
	best, bestQuality := "", 0.0
	for _, offer := range offered {
		q, named := quality(header, offer)
		if q > bestQuality || q == bestQuality && best == offered[0] && named && q > 0 {
			best, bestQuality = offer, q
		}
	}
	if best == "" {
		return "", InvalidStatus(http.StatusNotAcceptable, "there is "+strings.Join(offered, ", "))
	}
	return best, nil
}

// quality is the weight that the most specific range of the header gives to a media type, and whether that range names
// it without a wildcard.
func quality(header, offer string) (weight float64, named bool) {
	specific := 0
	family, _, _ := strings.Cut(offer, "/")
	for entry := range strings.SplitSeq(header, ",") {
		mediaRange, params, err := mime.ParseMediaType(entry)
		if err != nil {
			continue
		}
		level := 0
		switch mediaRange {
		case offer:
			level = 3
		case family + "/*":
			level = 2
		case "*/*":
			level = 1
		}
		if level > specific {
			specific, weight = level, 1
			if q, ok := params["q"]; ok {
				weight, _ = strconv.ParseFloat(q, 64) // an invalid number has weight 0
			}
		}
	}
	return weight, specific == 3
}
