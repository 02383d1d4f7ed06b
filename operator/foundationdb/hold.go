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

// Gate returns the links with those held that the annotations hold, and the hash of what the pass would do without
// that. approved: the annotations approve exactly this plan, so nothing is held; the caller removes ApproveAnnotation
// before it acts, since an approval is good for one pass. scope returns a copy that a plan may change.
func Gate[S any](annotations map[string]string, links chain.Chain[S], scope func() S) (gated chain.Chain[S], plan string, approved bool) {
	holds := Holds(annotations)
	if holds == nil {
		return links, "", false
	}
	plan = PlanHash(links.Plan(scope()))
	if plan != "" && annotations[ApproveAnnotation] == plan {
		return links, plan, true
	}
	return links.Hold(holds), plan, false
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
