package execution

import (
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"reprise"
	"reprise/internal/quota"
)

// A key is the stream "key:<digest of the key>" without events, whose configuration is a digest of the request. The id
// of the current execution of the key is derived from the key and the epoch of that stream. All callers that find the
// stream therefore start the same execution, which is created once. A new start removes the stream in that epoch and
// creates it again; any number of callers do so once. The stream ends when its execution ends, so that both are swept
// at the same age.

// keyNamespace begins the names of the streams of keys.
const keyNamespace = "key:"

// keyedAge is how long a keyed execution is kept after its end, unless its request sets another time.
const keyedAge = 24 * time.Hour

// keyMeta is the Meta of the stream of a key.
type keyMeta struct {
	Key    string `json:"key"`
	Digest string `json:"digest"`
}

// streamOfKey is the name of the stream of a key, which may be of any form.
func (h *Host) streamOfKey(tenant reprise.Tenant, key string) reprise.StreamKey {
	sum := mac(h.opts.Secret, "reprise execution key 1", []byte(tenant), []byte(key))
	return reprise.StreamKey{Tenant: tenant, Name: keyNamespace + inName(sum[:16])}
}

// keyConfig is the configuration of the stream of the key of a request.
func (h *Host) keyConfig(req *Request) reprise.StreamConfig {
	digest := mac(h.opts.Secret, "reprise execution request 1", canonical(req))
	return reprise.StreamConfig{
		Meta:      mustMarshal(keyMeta{req.Key, base64.RawURLEncoding.EncodeToString(digest)}),
		Retention: reprise.Retention{MaxAge: time.Duration(req.Retention.MaxAge)},
	}
}

// keyedID is the id of the execution that stands for a key while its stream is in one life.
func (h *Host) keyedID(key string, info *reprise.StreamInfo) string {
	epoch := info.Epoch
	if len(info.Lineage) > 0 { // a store that may have lost events has given it others
		epoch = info.Lineage[0].Epoch
	}
	sum := mac(h.opts.Secret, "reprise execution of a key 1", []byte(info.Key.Tenant), []byte(key), []byte(epoch))
	return inName(sum[:16])
}

// inName is a digest in the letters of ids.
func inName(sum []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum))
}

// startKeyed is Start for a request with a key.
func (h *Host) startKeyed(ctx context.Context, who *quota.Holder, req Request) (x Execution, created bool, err error) {
	if req.Retention.MaxAge == 0 {
		req.Retention.MaxAge = Duration(keyedAge)
	}
	key, config := h.streamOfKey(who.Tenant, req.Key), h.keyConfig(&req)
	x, found, err := h.standing(ctx, key, req.Key, config)
	if found || err != nil {
		return x, false, err
	}
	if _, err := h.isolate(who.Tenant, &req); err != nil { // before the key is bound to the request
		return Execution{}, false, err
	}
	if _, err := h.secrets(who.Tenant, &req); err != nil {
		return Execution{}, false, err
	}
	for range maxKeyTries {
		s, made, err := h.log.Create(ctx, key, config)
		if err == nil && made {
			err = h.checkCreated(ctx, s, &recall{key: key}, &config)
		}
		if _, ok := errors.AsType[*recordedError](err); ok {
			return orRecorded(Execution{}, false, err)
		}
		if err != nil {
			return Execution{}, false, err
		}
		info, err := s.Info(ctx)
		if isOver(err) {
			continue // it was removed since
		}
		if err != nil {
			return Execution{}, false, err
		}
		// Whatever has become of it: it was started after we were called.
		req.ID = h.keyedID(req.Key, &info)
		return h.start(ctx, who, req, "", nil)
	}
	return Execution{}, false, fmt.Errorf("%w: the key was removed %d times", reprise.ErrUnavailable, maxKeyTries)
}

// maxKeyTries limits how often the stream of a key is created again after others have removed it.
const maxKeyTries = 8

// standing finds the execution that answers a request with a key: one that has not ended, or that has succeeded. If the
// existing one has failed or is no longer kept, standing frees the key for another one.
func (h *Host) standing(ctx context.Context, key reprise.StreamKey, name string, config reprise.StreamConfig) (
	x Execution, found bool, err error,
) {
	s, info, err := lookUp(ctx, h.log, key)
	switch {
	case err == nil && s == nil:
		return h.recorded(ctx, &recall{key: key}, &config)
	case err != nil:
		return Execution{}, false, err
	case !info.Config.Equal(config):
		return Execution{}, false, fmt.Errorf("%w: the key belongs to another request", reprise.ErrConflict)
	}
	x, err = h.Show(ctx, key.Tenant, h.keyedID(name, &info))
	switch {
	case err == nil && !x.failed():
		return x, true, nil
	case err == nil, isOver(err) && info.End != nil:
		return Execution{}, false, s.Remove(ctx)
	case isOver(err): // it is being created, or its creator has died
		return Execution{}, false, nil
	}
	return Execution{}, false, err
}

// failed reports whether an execution has ended otherwise than by an exit with code 0.
func (x *Execution) failed() bool {
	return x.Status == StatusEnded &&
		(x.Outcome != Exited || x.ExitCode == nil || *x.ExitCode != 0)
}

// keyIn returns the key in the configuration of the stream of an execution, or "".
func keyIn(config *reprise.StreamConfig) string {
	var m meta
	_ = json.Unmarshal(config.Meta, &m) // we wrote it
	return m.Key
}

// endKey ends the stream of the key of an execution that has ended, if that still stands for it. What
// fails here is done by endKeys.
func (h *Host) endKey(ctx context.Context, id reprise.StreamKey, config *reprise.StreamConfig, outcome Outcome) {
	name := keyIn(config)
	if name == "" {
		return
	}
	s, info, err := lookUp(ctx, h.log, h.streamOfKey(id.Tenant, name))
	if err == nil && s != nil && keyOf(id.Tenant, h.keyedID(name, &info)) == id {
		_, err = s.End(ctx, string(outcome), reprise.Event{})
	}
	if err != nil && !isOver(err) {
		h.opts.Logger.Info("the key of an execution has no end yet",
			"execution", id.Name, "tenant", id.Tenant, "error", err)
	}
}

// freeKey removes the stream of the key of an execution that is about to be removed.
func (h *Host) freeKey(ctx context.Context, id reprise.StreamKey) error {
	s, info, err := lookUp(ctx, h.log, id)
	if err != nil || s == nil || keyIn(&info.Config) == "" {
		return err
	}
	name := keyIn(&info.Config)
	s, info, err = lookUp(ctx, h.log, h.streamOfKey(id.Tenant, name))
	if err != nil || s == nil || keyOf(id.Tenant, h.keyedID(name, &info)) != id {
		return err
	}
	return s.Remove(ctx)
}

// endKeys ends the streams of keys whose executions have ended without that, because a server died in between, and
// removes those that were made for an execution which was never started.
func (h *Host) endKeys(ctx context.Context) error {
	query := reprise.ListQuery{Namespace: keyNamespace, Open: true}
	return eachStream(ctx, h.log, query, func(info *reprise.StreamInfo) error { return h.tidyKey(ctx, info) })
}

// tidyKey is endKeys for one key, as it was listed.
func (h *Host) tidyKey(ctx context.Context, listed *reprise.StreamInfo) error {
	var m keyMeta
	_ = json.Unmarshal(listed.Config.Meta, &m) // we wrote it
	id := keyOf(listed.Key.Tenant, h.keyedID(m.Key, listed))
	execution, info, err := lookUp(ctx, h.log, id)
	switch {
	case err != nil:
		return err
	case execution == nil && time.Since(listed.Created) > listed.Config.Retention.MaxAge:
		s, now, err := lookUp(ctx, h.log, listed.Key)
		if err != nil || s == nil || now.Epoch != listed.Epoch {
			return err
		}
		return s.Remove(ctx)
	case execution != nil && info.End != nil: // otherwise it is being started, or runs
		h.endKey(ctx, id, &info.Config, Outcome(info.End.Outcome))
	}
	return nil
}
