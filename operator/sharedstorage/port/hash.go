package port

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
)

// Hash returns the hash of a set of parameters: equal sets have equal hashes, an empty set has the
// hash "".
func Hash(params map[string]string) string {
	if len(params) == 0 {
		return ""
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(params)) {
		h.Write([]byte(name + "\x00" + params[name] + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
