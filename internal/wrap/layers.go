package wrap

import (
	"fmt"

	"reprise"
)

// Layer identifies a wrapper whose place in the order matters.
type Layer string

// The wrappers whose place matters.
const (
	Transforms Layer = "Transform"
	Compresses Layer = "Compress"
	Encrypts   Layer = "Encrypt"
	Retries    Layer = "Retry"
	Caches     Layer = "Cache"
)

// Layered is a wrapper whose place in the order matters.
type Layered interface{ Layer() Layer }

// forbidden lists, for each layer, the layers that must not be inside it, and why.
var forbidden = map[Layer]map[Layer]string{
	Transforms: {},
	Compresses: {
		Transforms: "Transform would see compressed bytes; put it around Compress",
		Compresses: "compressing twice gains nothing",
	},
	Encrypts: {
		Transforms: "Transform would see encrypted bytes; put it around Encrypt",
		Compresses: "encrypted bytes do not get smaller; put Compress around Encrypt",
		Encrypts:   "encrypting twice gains nothing; rotate keys by putting a new one in front",
	},
	Retries: {
		Transforms: "Retry tells a stored batch by its bytes, which Transform changes; put Transform around Retry",
		Retries:    "the tries would multiply",
	},
	Caches: {
		Caches: "the same batches would be kept twice",
	},
}

// Place returns an error if outer does not work around inner. It looks through every Store that has a method Unwrap.
func Place(outer Layer, inner reprise.Store) error {
	for s := inner; s != nil; {
		if l, ok := s.(Layered); ok {
			if why, no := forbidden[outer][l.Layer()]; no {
				return fmt.Errorf("%w: %s around %s: %s", reprise.ErrInvalid, outer, l.Layer(), why)
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
