package storewrap

import (
	"fmt"

	"reprise"
)

// layer is what a wrapper does, as far as the order of wrappers matters.
type layer string

const (
	transforms layer = "Transform"
	compresses layer = "Compress"
	encrypts   layer = "Encrypt"
	retries    layer = "Retry"
	caches     layer = "Cache"
)

// layered is a wrapper whose place among the others matters.
type layered interface{ layer() layer }

// forbidden says which layers must not be inside of a layer, and why.
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

// place refuses to put outer around inner where the two do not work in that order. It looks
// through every Store that has a method Unwrap.
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
