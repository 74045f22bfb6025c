package execution

// ErrCostly is why a screen is not drawn.
var ErrCostly = errCostly
