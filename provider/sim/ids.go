package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// ids numbers what happens in the cloud, and gives ids to what is created.
type ids struct {
	seed  uint64
	seq   int64
	names map[name]int // how often each name has been used
}

func (s *ids) next() int64 {
	s.seq++
	return s.seq
}

// id returns the same id for the same seed, kind, name and number of uses of the name.
func (s *ids) id(n name) (id, identity string) {
	s.names[n]++
	return s.hash(s.names[n], n.Kind+"/"+n.Name)
}

func (s *ids) hash(count int, key string) (id, identity string) {
	h := sha256.New()
	var n [16]byte
	binary.BigEndian.PutUint64(n[:], s.seed)
	binary.BigEndian.PutUint64(n[8:], uint64(count))
	h.Write(n[:])
	h.Write([]byte(key))
	b := h.Sum(nil)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16]), fmt.Sprintf("%x", b[16:28])
}
