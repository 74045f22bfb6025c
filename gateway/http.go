package gateway

import "log/slog"

func openHTTP(g *Gateway, logger *slog.Logger, receive receiver) link { panic("not yet") }
