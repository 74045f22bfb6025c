package execution

import (
	"context"
	"time"

	"reprise"
	"reprise/internal/execution/command"
)

// ErrCostly is why a screen is not drawn.
var ErrCostly = errCostly

// NoteForTest writes the record of an execution that has exited with 0 at a time.
func (h *Host) NoteForTest(ctx context.Context, tenant reprise.Tenant, req Request, at time.Time) error {
	config, code := h.config(&req), 0
	info := reprise.StreamInfo{Key: keyOf(tenant, req.ID), Config: config, Created: at, Epoch: reprise.NewEpoch()}
	return h.remember(ctx, &info, &ending{Ending: command.Ending{Outcome: Exited, ExitCode: &code}}, at)
}

// DieForTest makes the Host append nothing more, as if its process had died.
func (h *Host) DieForTest() { h.giveUp(reprise.ErrClosed) }

// StreamForTest returns the key and the configuration of the stream of a request.
func (h *Host) StreamForTest(tenant reprise.Tenant, req Request) (reprise.StreamKey, reprise.StreamConfig) {
	return keyOf(tenant, req.ID), h.config(&req)
}
