package identity

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxSources is the number of sources that are counted separately. Further sources with recent failures share one
// limit.
const maxSources = 10_000

// source is the origin of a wrong credential and the id of the credential, or "" if there is no such id. A sender with
// one wrong key does not use up the attempts of others behind the same address.
type source struct {
	from       netip.Prefix
	credential string
}

// failures counts wrong credentials by their source.
type failures struct {
	burst int
	every rate.Limit

	mu       sync.Mutex
	limiters map[source]*rate.Limiter
	crowd    *rate.Limiter // of the sources for which there was no room
}

func newFailures(burst int, every time.Duration) *failures {
	limit := rate.Every(every)
	return &failures{
		burst: burst, every: limit,
		limiters: map[source]*rate.Limiter{}, crowd: rate.NewLimiter(limit, burst),
	}
}

// note counts a failure and returns what to answer: err, or a *LimitError.
func (f *failures) note(remoteAddr, credential string, err error) error {
	limiter := f.limiter(source{origin(remoteAddr), credential})
	if limiter.Allow() {
		return err
	}
	wait := time.Duration((1 - limiter.Tokens()) / float64(f.every) * float64(time.Second))
	return &LimitError{RetryAfter: max(wait, time.Second)}
}

func (f *failures) limiter(from source) *rate.Limiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.limiters[from]; l != nil {
		return l
	}
	if len(f.limiters) >= maxSources {
		f.forgetRested()
	}
	if len(f.limiters) >= maxSources {
		return f.crowd
	}
	l := rate.NewLimiter(f.every, f.burst)
	f.limiters[from] = l
	return l
}

// forgetRested removes the sources without remaining failures: a new limiter would be equal. The caller holds mu.
func (f *failures) forgetRested() {
	for from, l := range f.limiters {
		if l.Tokens() >= float64(f.burst) {
			delete(f.limiters, from)
		}
	}
}

// origin returns the network that counts as one sender: an IPv4 address, or the /64 of one subscriber in IPv6. Texts
// that are not an address count as one sender too.
func origin(remoteAddr string) netip.Prefix {
	addrPort, err := netip.ParseAddrPort(remoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	addr := addrPort.Addr().Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
