package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"reprise"
)

// SessionInfo describes a session to an administrator.
type SessionInfo struct {
	// ID names the session. To know it is not enough to use it: its principal must be the same.
	ID        string
	Principal string
	// Client and ClientVersion are the name and version that the client has sent. Version is the version of the
	// protocol.
	Client, ClientVersion, Version string
	// Created and Used are when the session was opened and when it was used last, give or take a part of
	// Options.SessionIdle if another replica has it.
	Created, Used time.Time
	// Streams is the number of kept streams of the session, Running the number of unanswered calls among them, and
	// Bytes the size of the streams.
	Streams, Running int
	Bytes            int64
}

// SessionPage is a page of sessions, the newest first.
type SessionPage struct {
	Sessions []SessionInfo
	// Next is for the next page, "" if this is the last one.
	Next string
}

// Sessions lists the sessions of a tenant that have not ended: at most limit of them, 1 to 1,000, after the Next of the
// previous page. A page may be shorter although more sessions follow. Sessions lists all streams of the tenant to count
// them for each session.
func (h *Handler) Sessions(ctx context.Context, tenant reprise.Tenant, limit int, after string) (SessionPage, error) {
	listed, err := h.log.List(ctx, reprise.ListQuery{Tenant: tenant, Namespace: h.states, Limit: limit, After: after})
	if err != nil {
		return SessionPage{}, err
	}
	used, err := h.usage(ctx, tenant, "")
	if err != nil {
		return SessionPage{}, err
	}
	page := SessionPage{Sessions: []SessionInfo{}, Next: listed.Next}
	for i := range listed.Streams {
		info, err := h.describe(ctx, &listed.Streams[i], used)
		if errors.Is(err, errNoSession) {
			continue // it has ended
		}
		if err != nil {
			return SessionPage{}, err
		}
		page.Sessions = append(page.Sessions, info)
	}
	return page, nil
}

// SessionInfo describes a session. The error is reprise.ErrNotFound if the tenant has no such session, or the session
// has ended.
func (h *Handler) SessionInfo(ctx context.Context, tenant reprise.Tenant, id string) (SessionInfo, error) {
	stream, err := h.stateOf(ctx, tenant, id)
	if err != nil {
		return SessionInfo{}, err
	}
	state, err := stream.Info(ctx)
	if err != nil {
		return SessionInfo{}, err
	}
	used, err := h.usage(ctx, tenant, id)
	if err != nil {
		return SessionInfo{}, err
	}
	return h.describe(ctx, &state, used)
}

// EndSession ends a session and notifies its client on the stream of the session as a whole. It returns the same errors
// as SessionInfo.
func (h *Handler) EndSession(ctx context.Context, tenant reprise.Tenant, id string) error {
	if _, err := h.stateOf(ctx, tenant, id); err != nil {
		return err
	}
	s, err := h.load(ctx, sessionKey{tenant, id})
	if err != nil {
		return err
	}
	return h.terminate(ctx, s, Ended)
}

func (h *Handler) stateOf(ctx context.Context, tenant reprise.Tenant, id string) (*reprise.Stream, error) {
	if len(id) != sessionName || !isRandomText(id) {
		return nil, errNoSession
	}
	stream, err := h.log.Stream(ctx, h.stateKey(tenant, id))
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return nil, errNoSession
	}
	return stream, err
}

// sessionUsage is the space that the streams of a session use.
type sessionUsage struct {
	streams, running int
	bytes            int64
}

// usage returns the space that the streams of a tenant use, by session, or of one session if id is not "".
func (h *Handler) usage(ctx context.Context, tenant reprise.Tenant, id string) (map[string]sessionUsage, error) {
	used := map[string]sessionUsage{}
	q := reprise.ListQuery{Tenant: tenant, Namespace: h.streams, Limit: 1000}
	for {
		page, err := h.log.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Streams {
			info := &page.Streams[i]
			session, exchange, _ := strings.Cut(info.Key.Name[len(h.streams):], "/")
			if id != "" && session != id {
				continue
			}
			u := used[session]
			u.streams++
			u.bytes += info.Bytes
			if info.End == nil && exchange != standalone {
				u.running++
			}
			used[session] = u
		}
		if q.After = page.Next; q.After == "" {
			return used, nil
		}
	}
}

// describe describes the session whose state is kept in a stream.
func (h *Handler) describe(ctx context.Context, kept *reprise.StreamInfo, used map[string]sessionUsage) (
	SessionInfo, error,
) {
	if kept.End != nil {
		return SessionInfo{}, errNoSession
	}
	id := kept.Key.Name[len(h.states):]
	stream, err := h.stateOf(ctx, kept.Key.Tenant, id)
	if err != nil {
		return SessionInfo{}, err
	}
	state, _, err := readState(ctx, stream)
	if err != nil {
		return SessionInfo{}, err
	}
	var said struct {
		Client struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"clientInfo"`
	}
	_ = json.Unmarshal(state.Initialize, &said) // a client need not say who it is
	u := used[id]
	info := SessionInfo{
		ID: id, Principal: state.Principal, Client: said.Client.Name, ClientVersion: said.Client.Version,
		Version: state.Version, Created: kept.Created, Used: state.Used,
		Streams: u.streams, Running: u.running, Bytes: u.bytes,
	}
	h.mu.Lock()
	s := h.sessions[sessionKey{kept.Key.Tenant, id}]
	h.mu.Unlock()
	if s != nil {
		info.Used = s.idleSince()
	}
	return info, nil
}

// Open returns the number of sessions that this process has in use.
func (h *Handler) Open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sessions)
}
