package storewrap

import (
	"fmt"

	"reprise"
)

// layer identifies a wrapper whose place in the order matters.
type layer string

const (
	transforms layer = "Transform"
	compresses layer = "Compress"
	encrypts   layer = "Encrypt"
	retries    layer = "Retry"
	caches     layer = "Cache"
)

// layered is a wrapper whose place in the order matters.
type layered interface{ layer() layer }

// forbidden lists, for each layer, the layers that must not be inside it, and why.
var forbidden = map[layer]map[layer]string{
	transforms: {},
	compresses: {
		transforms: "Transform would see compressed bytes; put it around Compress",
		compresses: "compressing twice gains nothing",
	},
	encrypts: {
		transforms: "Transform would see encrypted bytes; put it around Encrypt",
		compresses: "encrypted bytes do not get smaller; put Compress around Encrypt",
		encrypts:   "encrypting twice gains nothing; rotate keys by putting a new one in front",
	},
	retries: {
		transforms: "Retry tells a stored batch by its bytes, which Transform changes; put Transform around Retry",
		retries:    "the tries would multiply",
	},
	caches: {
		caches: "the same batches would be kept twice",
	},
}

// place returns an error if outer does not work around inner. It looks through every Store that has a method Unwrap.
func place(outer layer, inner reprise.Store) error {
	for s := inner; s != nil; {
		if l, ok := s.(layered); ok {
			if why, no := forbidden[outer][l.layer()]; no {
				return fmt.Errorf("%w: %s around %s: %s", reprise.ErrInvalid, outer, l.layer(), why)
			}
		}
		u, ok := s.(interface{ Unwrap() reprise.Store })
		if !ok {
			return nil
		}
		s = u.Unwrap()
	}
	return fmt.Errorf("%w: %s around no Store", reprise.ErrInvalid, outer)
}
