package api

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// accepts picks what the client wants most of the media types that there are, as
// RFC 9110, section 12.5.1, says. Among equals the first wins, which is also the
// answer to a client that does not care: to be sent a stream one has to ask for it.
func accepts(r *http.Request, offered ...string) (string, error) {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return offered[0], nil
	}
	best, bestQuality := "", 0.0
	for _, offer := range offered {
		if q := quality(header, offer); q > bestQuality {
			best, bestQuality = offer, q
		}
	}
	if best == "" {
		return "", invalidStatus(http.StatusNotAcceptable, "there is "+strings.Join(offered, ", "))
	}
	return best, nil
}

// quality is the weight that the most specific range of the header gives to a media type.
func quality(header, offer string) float64 {
	weight, specific := 0.0, 0
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
				weight, _ = strconv.ParseFloat(q, 64) // what is no number weighs nothing
			}
		}
	}
	return weight
}
