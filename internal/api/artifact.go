package api

import (
	"fmt"
	"net/http"
	"strconv"

	"reprise/internal/identity"
	"reprise/internal/web"
)

// readArtifact answers with a file that is kept with an execution, from an offset on or a range of it.
func (s *Server) readArtifact(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayUse(x, identity.ScopeRead, id); err != nil {
		return err
	}
	offset, err := x.Query.Number("offset", 0, 0, 1<<63-1)
	if err != nil {
		return err
	}
	a, err := s.host.Artifact(x.R.Context(), x.Who.Tenant, id, x.R.PathValue("path"))
	if err != nil {
		return err
	}
	h := x.W.Header()
	h.Set("ETag", strconv.Quote(a.SHA256))
	h.Set("Accept-Ranges", "bytes")
	part, status := web.Span{Start: offset, Length: a.Size - offset}, http.StatusOK
	condition := x.R.Header.Get("If-Range")
	ranged, verdict := web.ParseRange(x.RangeHeader(), a.Size)
	if offset > 0 || condition != "" && condition != h.Get("ETag") {
		verdict = web.RangeIgnored
	}
	switch {
	case verdict == web.RangeUnsatisfiable, offset > a.Size:
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", a.Size))
		return web.InvalidStatus(http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("there are %d bytes", a.Size))
	case verdict == web.RangeGood:
		part, status = ranged, http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Start, part.Start+part.Length-1, a.Size))
	}
	h.Set("Content-Type", web.Bytes)
	h.Set("Content-Length", strconv.FormatInt(part.Length, 10))
	x.AllowWrite()
	x.W.WriteHeader(status)
	if x.R.Method == http.MethodHead {
		return nil
	}
	w := x.Steady(false)
	if n, err := a.Copy(x.R.Context(), w, part.Start, part.Length); err != nil || n != part.Length {
		panic(http.ErrAbortHandler) // the client must see that this was not all
	}
	return nil
}
