package pgstore

import (
	"encoding/binary"
)

// Object ids of types; see src/include/catalog/pg_type.dat of PostgreSQL.
const (
	oidBool   = 16
	oidBytea  = 17
	oidInt8   = 20
	oidInt4   = 23
	oidText   = 25
	oidBytes  = 1001 // bytea[]
	oidInt4s  = 1007
	oidTexts  = 1009
	oidInt8s  = 1016
	inBinary  = 1
	arrayHead = 5 * 4
)

// binaryFormat is the format of all parameters and results, so that bytes and numbers need no text form.
var binaryFormat = []int16{inBinary}

// params are the parameters of a statement, in the binary format.
type params struct {
	values [][]byte
	oids   []uint32
}

func (p *params) add(oid uint32, value []byte) *params {
	p.values, p.oids = append(p.values, value), append(p.oids, oid)
	return p
}

func (p *params) text(s string) *params { return p.add(oidText, []byte(s)) }

func (p *params) int8(n int64) *params {
	return p.add(oidInt8, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

func (p *params) bool(v bool) *params {
	b := byte(0)
	if v {
		b = 1
	}
	return p.add(oidBool, []byte{b})
}

// bytes adds b, or NULL if b is nil.
func (p *params) bytes(b []byte) *params { return p.add(oidBytea, b) }

// int8OrNull adds n, or NULL if valid is false.
func (p *params) int8OrNull(n int64, valid bool) *params {
	if !valid {
		return p.add(oidInt8, nil)
	}
	return p.int8(n)
}

// An array of one dimension, see array_recv of PostgreSQL:
//
//	+------------+-------+------------------+---------------+----------------+---------------------+
//	| dimensions | nulls | type of elements | their number  | first index, 1 | length and value of |
//	| 4 bytes    | 4     | 4                | 4             | 4              | each element        |
//	+------------+-------+------------------+---------------+----------------+---------------------+
func array(element uint32, n, size int) []byte {
	b := make([]byte, 0, arrayHead+4*n+size)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, element)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return binary.BigEndian.AppendUint32(b, 1)
}

// texts adds an array of n texts.
func (p *params) texts(n int, of func(i int) string) *params {
	size := 0
	for i := range n {
		size += len(of(i))
	}
	b := array(oidText, n, size)
	for i := range n {
		b = binary.BigEndian.AppendUint32(b, uint32(len(of(i))))
		b = append(b, of(i)...)
	}
	return p.add(oidTexts, b)
}

// blobs adds an array of n bytea.
func (p *params) blobs(n int, of func(i int) []byte) *params {
	size := 0
	for i := range n {
		size += len(of(i))
	}
	b := array(oidBytea, n, size)
	for i := range n {
		b = binary.BigEndian.AppendUint32(b, uint32(len(of(i))))
		b = append(b, of(i)...)
	}
	return p.add(oidBytes, b)
}

// int8s adds an array of n bigint.
func (p *params) int8s(n int, of func(i int) int64) *params {
	b := array(oidInt8, n, 8*n)
	for i := range n {
		b = binary.BigEndian.AppendUint32(b, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(of(i)))
	}
	return p.add(oidInt8s, b)
}

// int4s adds an array of n integer.
func (p *params) int4s(n int, of func(i int) int32) *params {
	b := array(oidInt4, n, 4*n)
	for i := range n {
		b = binary.BigEndian.AppendUint32(b, 4)
		b = binary.BigEndian.AppendUint32(b, uint32(of(i)))
	}
	return p.add(oidInt4s, b)
}
