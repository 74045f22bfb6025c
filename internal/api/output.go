package api

import (
	"fmt"
	"net/http"
	"path"
	"strconv"

	"reprise/internal/execution"
	"reprise/internal/web"
)

// executionOutput answers with the exact bytes of a channel: the present ones, a range of them, or with follow=true all
// bytes until the end as they arrive. The parameter offset skips the bytes before it. A follower uses it to resume,
// because a Range needs an end, which is not known yet.
func (s *Server) executionOutput(x *web.Exchange) error {
	id, channel := x.R.PathValue("id"), path.Base(x.R.URL.Path)
	if err := s.grants.MayRead(x, id); err != nil {
		return err
	}
	offset, err := x.Query.Number("offset", 0, 0, 1<<63-1)
	if err != nil {
		return err
	}
	follow, err := x.Query.Flag("follow")
	if err != nil {
		return err
	}
	if follow && x.R.Method != http.MethodHead {
		if err := s.opts.Reads.Enter(x); err != nil {
			return err
		}
		x.EndWithServer()
		x.EndWithConnection()
		x.AtEnd(s.host.FollowIf(x.R.Context(), x.Who.Tenant, id, x.Who.MayLeave))
	}
	output, err := s.host.Output(x.R.Context(), x.Who.Tenant, id, channel)
	if err != nil {
		return err
	}
	part := web.Span{Start: offset, Length: max(output.Size()-offset, 0)}
	if offset > output.Size() && (!follow || output.Ended()) {
		return s.unsatisfiable(x, output)
	}
	status := http.StatusOK
	if header := x.RangeHeader(); header != "" && !follow && offset == 0 && x.R.Header.Get("If-Range") == "" {
		ranged, verdict := web.ParseRange(header, output.Size())
		switch verdict {
		case web.RangeUnsatisfiable:
			return s.unsatisfiable(x, output)
		case web.RangeGood:
			part, status = ranged, http.StatusPartialContent
		}
	}
	if part.Start < output.First() && (part.Length > 0 || follow) {
		return &execution.LostError{Channel: channel, Asked: part.Start, First: output.First()}
	}
	return s.sendOutput(x, output, part, status, follow)
}

// sendOutput answers with one part of the output.
func (s *Server) sendOutput(x *web.Exchange, output *execution.Output, part web.Span, status int, follow bool) error {
	h := x.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	if follow {
		h.Set("X-Accel-Buffering", "no")
		part.Length = -1
	} else {
		h.Set("Accept-Ranges", "bytes")
		h.Set("Content-Length", strconv.FormatInt(part.Length, 10))
	}
	if status == http.StatusPartialContent {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Start, part.Start+part.Length-1, output.Size()))
	}
	x.AllowWrite()
	x.W.WriteHeader(status)
	if x.R.Method == http.MethodHead {
		return nil
	}
	w := x.Steady(follow)
	if follow {
		_ = http.NewResponseController(x.W).Flush() // the client learns that it is being served
	}
	n, err := output.Copy(x.R.Context(), w, part.Start, part.Length, follow)
	if err != nil || !follow && n != part.Length {
		panic(http.ErrAbortHandler) // the client must see that this was not all
	}
	return nil
}

func (s *Server) unsatisfiable(x *web.Exchange, output *execution.Output) error {
	x.W.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", output.Size()))
	return web.InvalidStatus(http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("there are %d bytes", output.Size()))
}
