// Package stored compares what an operator has written with what it reads.
//
//	peer.go    somebody else writes the status too
//	pruned.go  the installed CRD drops fields of the status
//	writes.go  lists are late
package stored

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Peer notices another program that writes the status of a cluster, by the status that this operator has stored or read last.
type Peer struct {
	version string // the resource version
	status  [sha256.Size]byte
	// tried are the statuses of writes of which nobody knows whether they were done: the whole ones, and what the CRD of
	// another operator keeps of them.
	tried   [][sha256.Size]byte
	blocked bool
	told    bool
	adopted string // the annotation when it was blocked
}

// Standing is what an object that was read is to what is known of it.
type Standing int

const (
	Current Standing = iota
	Stale            // older than what was stored
	Foreign          // somebody else has written the status
)

// Judge compares an object with what is known of it. Once it is foreign it stays so until adopted changes.
func (k *Peer) Judge(c *v1beta2.FoundationDBCluster, adopted string) Standing {
	if k.blocked && adopted == k.adopted {
		return Foreign
	}
	if !k.blocked && k.version == c.ResourceVersion {
		return Current
	}
	status := digest(c.Status)
	switch {
	case k.blocked, k.version == "", status == k.status, slices.Contains(k.tried, status), signed(c.Status, status):
		*k = Peer{version: c.ResourceVersion, status: status}
		return Current
	case older(c.ResourceVersion, k.version):
		return Stale
	case !older(k.version, c.ResourceVersion): // versions that cannot be compared
		*k = Peer{version: c.ResourceVersion, status: status}
		return Current
	}
	k.blocked, k.adopted = true, adopted
	return Foreign
}

// Tries notes a status that is about to be written: its answer may be lost.
func (k *Peer) Tries(c *v1beta2.FoundationDBCluster) {
	k.tried = append(k.tried[max(0, len(k.tried)-mostTried):], digest(c.Status), digest(publishedStatus(c.Status)))
}

// Stored notes a status that was written.
func (k *Peer) Stored(c *v1beta2.FoundationDBCluster) {
	if !k.blocked {
		*k = Peer{version: c.ResourceVersion, status: digest(c.Status)}
	}
}

// mostTried is how many statuses of former writes are remembered beside that of the last one: those of some passes in
// which the API server could not be reached.
const mostTried = 30

// Tell reports whether another program is still to be told of.
func (k *Peer) Tell() bool {
	told := k.told
	k.told = true
	return !told
}

// Sign sets the digest of a status that is about to be written, by which other instances of this operator know it:
// one that stood still may write after the next one has begun.
func Sign(s *v1beta2.FoundationDBClusterStatus) { s.Digest = text(digest(*s)) }

// signed reports whether an instance of this operator has written a status of this digest, and nobody has changed it since.
func signed(s v1beta2.FoundationDBClusterStatus, digest [sha256.Size]byte) bool {
	return s.Digest == text(digest)
}

func text(digest [sha256.Size]byte) string { return hex.EncodeToString(digest[:8]) }

// digest of a status without itself and its connection string: that is repaired by hand where the database is silent (pawl fdb
// fix-coordinator-ips), and says nothing of another operator.
func digest(s v1beta2.FoundationDBClusterStatus) [sha256.Size]byte {
	s.ConnectionString, s.Digest = "", ""
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a status always has a JSON form
	}
	return sha256.Sum256(text)
}
