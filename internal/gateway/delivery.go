package gateway

import (
	"cmp"
	"context"
	"time"

	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// delivery serves one exchange: it sends the requests of the exchange to a connection and passes the messages of the
// upstream about them to the client. Only the goroutine of Serve uses it.
type delivery struct {
	g        *Gateway
	x        *mcphttp.Exchange
	to       client
	form     translation // of what is sent and received; nil before start
	in       *inbox
	requests []*clientRequest
	open     int // requests without a response
	given    givenAnswers
	silence  silence
}

// client receives the messages of a delivery. *mcphttp.Exchange is a client.
type client interface {
	Notify(message []byte) error
	Respond(id mcphttp.ID, message []byte) error
	Ask(id mcphttp.ID, message []byte, answer func([]byte)) error
}

// newDelivery makes the delivery of an exchange, with its requests.
func (g *Gateway) newDelivery(x *mcphttp.Exchange) *delivery {
	d := &delivery{g: g, x: x, to: x, in: newInbox(!x.Stateless()), silence: silence{limit: g.up.Timeout}}
	d.silence.limit = cmp.Or(d.silence.limit, noLimit)
	for _, m := range x.Messages {
		if m.ID != "" {
			r := &clientRequest{x: x, in: d.in, id: m.ID, method: m.Method, params: m.Params, began: time.Now()}
			d.requests = append(d.requests, r)
		}
	}
	d.open = len(d.requests)
	return d
}

// refuse answers all requests with an error.
func (d *delivery) refuse(why *wire.Failure) {
	for _, r := range d.requests {
		r.fail(Refused, why)
	}
}

// start sends the messages of the exchange, in their order.
func (d *delivery) start(ctx context.Context, c *connection) {
	d.form = d.translationTo(c)
	requests := d.requests
	for _, m := range d.x.Messages {
		if m.ID == "" {
			c.passNotification(ctx, m)
			continue
		}
		r := requests[0]
		requests = requests[1:]
		if c.answerByBudget(ctx, r) {
			continue
		}
		switch why := d.g.up.refuseTool(r); {
		case why != nil:
			r.fail(Refused, why)
		case !d.form.answerHere(ctx, r):
			d.send(ctx, c, r)
		}
	}
}

// send sends a request. If that is not possible the request gets an arrival that says why.
func (d *delivery) send(ctx context.Context, c *connection, r *clientRequest) {
	params, header := d.form.params(r)
	err := c.call(ctx, r, params, header)
	switch {
	case err == nil || ctx.Err() != nil:
	case err == link.ErrEnded: //nolint:errorlint // never wrapped
		r.in.push(arrival{request: r, resend: true, m: mcphttp.Message{Err: link.ErrEnded.JSON()}, result: Refused})
	default:
		r.fail(Refused, failureOf(err))
	}
}

// run passes messages on until each request has its response, the upstream is silent for too long, or ctx ends.
func (d *delivery) run(ctx context.Context) error {
	defer d.in.close()
	timer := time.NewTimer(d.silence.limit)
	defer timer.Stop()
	for d.open > 0 {
		select {
		case <-d.in.more:
		case <-timer.C:
			if left := d.silence.left(); left > 0 {
				timer.Reset(left)
				continue
			}
			message := "the upstream said nothing about the request for " + d.g.up.Timeout.String()
			d.abandon(TimedOut, wire.Internal(wire.ReasonTimeout, message))
			return nil
		case <-ctx.Done():
			d.leaveRunning(context.Cause(ctx))
			d.abandon(Cancelled, nil)
			return context.Cause(ctx)
		}
		d.deliverAll(ctx)
		timer.Reset(d.silence.limit)
	}
	return nil
}

// deliverAll passes on the messages that have arrived.
func (d *delivery) deliverAll(ctx context.Context) {
	for d.open > 0 {
		a, ok := d.in.pop()
		if !ok {
			return
		}
		if err := d.deliver(ctx, a); err != nil && ctx.Err() == nil {
			d.g.opts.Logger.Debug("a message of an MCP upstream is not delivered",
				"upstream", d.g.up.Name, "method", a.m.Method, "error", err)
		}
	}
}

// deliver hands over one arrival.
func (d *delivery) deliver(ctx context.Context, a arrival) error {
	switch {
	case a.resend && !a.request.resent:
		d.resend(ctx, a.request)
		return nil
	case a.retry != nil:
		a.request.params = a.retry
		d.send(ctx, a.request.call.conn, a.request)
		return nil
	case a.isResponse():
		return d.respond(a)
	case !a.isQuestion():
		return d.to.Notify(a.m.Raw)
	case d.answerGiven(a):
		return nil
	case d.to == client(d.x) && d.x.Stateless():
		return d.park(a)
	}
	return d.ask(a)
}

// respond hands a response to the client.
func (d *delivery) respond(a arrival) error {
	r := a.request
	if r.answered || d.askRound(a) {
		return nil
	}
	d.close(r, a.result)
	if d.form != nil && a.m.Result != nil {
		a.m.Result = d.form.result(r, a.m.Result)
	}
	if r.method == wire.MethodListTools && d.g.up.MaxToolsBytes <= 0 {
		a.m.Result = d.g.up.offered(a.m.Result)
	}
	return d.to.Respond(r.id, wire.Response(r.id, a.m.Result, a.m.Err))
}

// close notes that a request has its response.
func (d *delivery) close(r *clientRequest, result CallResult) {
	r.answered = true
	d.open--
	from, took := d.g.up.label(r), time.Since(r.began)
	if result == Lost || result == TimedOut {
		d.g.opts.Logger.Warn("an MCP upstream has not answered", "upstream", from, "method", r.method,
			"result", result, "took", took)
	}
	if hook := d.g.opts.Hooks.Called; hook != nil {
		hook(from, result, took)
	}
}

// ask hands a question of the upstream to the client.
func (d *delivery) ask(a arrival) error {
	d.silence.asked()
	err := d.to.Ask(a.m.ID, a.m.Raw, func(answer []byte) {
		d.silence.answered()
		a.from.reply(answer)
	})
	if err != nil {
		d.silence.answered()
		a.from.refuseNoClient(a.m.ID, "the client cannot be asked: "+err.Error())
	}
	return err
}

// resend sends a request that was not carried out over another connection, once.
func (d *delivery) resend(ctx context.Context, r *clientRequest) {
	r.resent = true
	c, err := d.g.connectionFor(ctx, d.x)
	if err != nil {
		r.fail(Refused, failureOf(err))
		return
	}
	d.form = d.translationTo(c)
	d.send(ctx, c, r)
}

// leaveRunning drops the requests that go on at the upstream when this process gives up for a cause.
func (d *delivery) leaveRunning(cause error) {
	for _, r := range d.requests {
		if !r.answered && r.call != nil && r.stays != nil && r.stays(cause) {
			d.close(r, Cancelled)
			r.call.conn.leaveRunning(r.call)
		}
	}
}

// abandon cancels the requests without a response. The client gets the error why, if that is not nil.
func (d *delivery) abandon(result CallResult, why *wire.Failure) {
	for _, r := range d.requests {
		if r.answered {
			continue
		}
		d.close(r, result)
		reason := ""
		if why != nil {
			reason = why.Message
			_ = d.to.Respond(r.id, wire.Response(r.id, nil, why.JSON())) // a stream that fails is reported elsewhere
		}
		if r.call != nil {
			r.call.conn.abandon(r.call, reason)
		}
	}
}
