package foundationdb

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/chain"
)

// Annotations of our objects.
const (
	// HoldAnnotation names links whose acts are held, separated by commas; "*" is all of them.
	HoldAnnotation = "pawl.dev/hold"
	// ApproveAnnotation is the hash of a plan, which may pass once although links are held.
	ApproveAnnotation = "pawl.dev/approve"
)

// Holds returns which links the annotations hold. nil: none.
func Holds(annotations map[string]string) func(link string) bool {
	var links []string
	for link := range strings.SplitSeq(annotations[HoldAnnotation], ",") {
		if link = strings.TrimSpace(link); link != "" {
			links = append(links, link)
		}
	}
	switch {
	case links == nil:
		return nil
	case slices.Contains(links, "*"):
		return func(string) bool { return true }
	default:
		return func(link string) bool { return slices.Contains(links, link) }
	}
}

// PlanHash names the acts of a plan: another act, or another target, has another hash. A plan without acts has none.
func PlanHash(plan []chain.Planned) string {
	type act struct {
		Link string
		Act  chain.PlannedAct
	}
	var acts []act
	for _, p := range plan {
		for _, a := range p.Acts {
			acts = append(acts, act{p.Link, a})
		}
	}
	if acts == nil {
		return ""
	}
	encoded, err := json.Marshal(acts)
	if err != nil {
		panic(err) // texts only
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:6])
}
