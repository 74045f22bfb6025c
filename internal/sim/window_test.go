package sim

import (
	"maps"

	"reprise"
)

// windows holds the start of the latest window that one Log has reported, by epoch.
type windows map[reprise.Epoch]uint64

// logLife identifies a Log among those that ran at its replica.
type logLife struct{ replica, life int }

// toldBy returns the windows that the Log of h has reported so far.
func (s *simulation) toldBy(h *handle) windows {
	s.failing.Lock()
	defer s.failing.Unlock()
	return maps.Clone(s.told[logLife{h.replica.number, h.life}])
}

// checkWindowStays (G1): the window of a stream in one Log never moves back. told holds what the Log had reported when
// info was requested.
func (s *simulation) checkWindowStays(h *handle, told windows, info *reprise.StreamInfo) {
	if before := told[info.Epoch]; info.Earliest < before {
		s.fail("G1: r%d: the window of %s moves back from %d to %d", h.replica.number, info.Key, before, info.Earliest)
	}
	s.failing.Lock()
	defer s.failing.Unlock()
	at := logLife{h.replica.number, h.life}
	if s.told == nil {
		s.told = map[logLife]windows{}
	}
	if s.told[at] == nil {
		s.told[at] = windows{}
	}
	s.told[at][info.Epoch] = max(s.told[at][info.Epoch], info.Earliest)
}

// checkWindowWas (G3): a state of a stream that a Log on a shared store reports is one that the store had. A Log with
// an unshared store may report its trim before it learns of a commit that seemed to fail.
func (s *simulation) checkWindowWas(h *handle, info *reprise.StreamInfo) {
	e := s.cluster.truth.epochs[info.Epoch]
	if s.config.shared && e != nil && !e.windows[window{info.Earliest, info.Tail}] {
		s.fail("G3: r%d: %s was never from %d to %d", h.replica.number, info.Key, info.Earliest, info.Tail)
	}
}

// maxBlock is the largest size of a block of memory that commits of a stream share.
const maxBlock = 128 << 10

// checkMemory (G7): the newest events in the memory of a Log stay within the bound of each stream and one block, which
// is shared by commits or holds one large commit or page.
func (s *simulation) checkMemory() {
	for _, r := range s.replicas {
		if r.log == nil {
			continue
		}
		m := r.log.Memory()
		if bound := int64(m.Streams) * int64(s.config.tailBytes+max(maxBlock, 2*s.largest)); m.TailBytes > bound {
			s.fail("G7: r%d holds %d bytes of events of %d streams, %d are allowed",
				r.number, m.TailBytes, m.Streams, bound)
		}
	}
}

// sized records the size of a batch or page.
func (s *simulation) sized(bytes int) {
	s.failing.Lock()
	defer s.failing.Unlock()
	s.largest = max(s.largest, bytes)
}
