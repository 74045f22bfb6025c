package execution

import (
	"context"
	"errors"
	"maps"
	"time"

	"reprise"
	"reprise/client"
)

// Change is the body of a change of a stream that exists.
type Change client.Change

// Validate returns a *FieldError for a change that no stream can take.
func (c *Change) Validate() error {
	for field, n := range map[string]*int64{
		"retention.max_events": c.Retention.MaxEvents, "retention.max_bytes": c.Retention.MaxBytes,
	} {
		if n != nil && *n < 0 {
			return invalid(field, "is negative")
		}
	}
	for field, d := range map[string]*Duration{
		"retention.max_age": c.Retention.MaxAge, "retention.max_idle": c.Retention.MaxIdle,
		"retention.max_age_each": c.Retention.MaxAgeEach,
	} {
		if d != nil && *d < 0 {
			return invalid(field, "is negative")
		}
	}
	for key, value := range c.Labels {
		if key == "" || len(key) > maxLabelKey || value != nil && len(*value) > maxLabelValue {
			return invalid("labels", "a key has 1 to %d bytes, a value at most %d", maxLabelKey, maxLabelValue)
		}
	}
	return nil
}

// Apply makes the change. The labels of the stream have a prefix, "" for a stream that is no execution.
func (c *Change) Apply(config *reprise.StreamConfig, prefix string) {
	r := &config.Retention
	if n := c.Retention.MaxEvents; n != nil {
		r.MaxEvents = *n
	}
	if n := c.Retention.MaxBytes; n != nil {
		r.MaxBytes = *n
	}
	if d := c.Retention.MaxAge; d != nil {
		r.MaxAge = time.Duration(*d)
	}
	labels := maps.Clone(config.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for label, d := range map[string]*Duration{
		reprise.MaxIdleLabel: c.Retention.MaxIdle, reprise.MaxAgeEachLabel: c.Retention.MaxAgeEach,
	} {
		if d == nil {
			continue
		}
		delete(labels, label)
		if *d > 0 {
			labels[label] = time.Duration(*d).String()
		}
	}
	for key, value := range c.Labels {
		if value == nil {
			delete(labels, prefix+key)
		} else {
			labels[prefix+key] = *value
		}
	}
	config.Labels = labels
}

// Configure changes the retention and the labels of an execution, which may have ended. The output that it no longer
// keeps is removed at once, and kept files stay as long as the output. Starting it again by the request that has
// started it still finds it. The error is a *FieldError, or comes from Stream or reprise.Stream.Configure.
func (h *Host) Configure(ctx context.Context, tenant reprise.Tenant, id string, c *Change) error {
	if c.Retention.MaxIdle != nil {
		return invalid("retention.max_idle", "is for streams that are no executions")
	}
	if err := c.Validate(); err != nil {
		return err
	}
	s, err := h.Stream(ctx, tenant, id)
	if err != nil {
		return err
	}
	var refused error
	info, err := s.Configure(ctx, func(config *reprise.StreamConfig) {
		before := *config
		c.Apply(config, labelPrefix)
		if refused = checkLabelCount(config.Labels); refused != nil {
			*config = before
		}
	})
	if err = errors.Join(refused, err); err != nil || c.Retention.MaxAge == nil {
		return err
	}
	return h.keepArtifacts(ctx, &info)
}

// checkLabelCount refuses more labels of a request than a request may have.
func checkLabelCount(labels map[string]string) error {
	n := 0
	for key := range labels {
		if len(key) > 0 && key[:1] == labelPrefix {
			n++
		}
	}
	if n > maxLabels {
		return invalid("labels", "at most %d are taken", maxLabels)
	}
	return nil
}

// keepArtifacts keeps the files of an execution as long as its output.
func (h *Host) keepArtifacts(ctx context.Context, info *reprise.StreamInfo) error {
	files, err := h.log.Stream(ctx, artifactsOf(info.Key))
	if err == nil {
		_, err = files.Configure(ctx, func(config *reprise.StreamConfig) {
			config.Retention.MaxAge = h.log.Retention(info.Config).MaxAge
		})
	}
	if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) {
		return nil
	}
	return err
}

// isStartedBy reports whether the stream of an execution was made by a request with this configuration. Retention and
// labels may have been changed since; Meta has a digest of the whole request.
func isStartedBy(info *reprise.StreamInfo, config *reprise.StreamConfig) bool {
	return digestOf(&info.Config) == digestOf(config)
}
