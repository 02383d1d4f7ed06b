package backend

import (
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
)

// statusOfKube is a status as it stands standalone: what holds the object up is
// beside its conditions, with its remedy.
func statusOfKube(status map[string]any) (json.RawMessage, error) {
	if _, has := status[control.StatusFault]; !has {
		raw, err := json.Marshal(status["conditions"])
		if err != nil {
			return nil, err
		}
		var conditions []metav1.Condition
		if json.Unmarshal(raw, &conditions) == nil { // of another form they say nothing
			if held := sharedstorage.HeldBy(conditions); held != nil {
				shown := map[string]any{control.StatusFault: held}
				for key, value := range status {
					shown[key] = value
				}
				return json.Marshal(shown)
			}
		}
	}
	return json.Marshal(status)
}

// difference is the merge patch (RFC 7386) that makes next of is.
func difference(is, next map[string]any) map[string]any {
	patch := map[string]any{}
	for key := range is {
		if _, stays := next[key]; !stays {
			patch[key] = nil
		}
	}
	for key, value := range next {
		was, has := is[key]
		before, isMap := was.(map[string]any)
		after, staysMap := value.(map[string]any)
		switch {
		case has && isMap && staysMap:
			if inner := difference(before, after); len(inner) > 0 {
				patch[key] = inner
			}
		case !has || !reflect.DeepEqual(was, value):
			patch[key] = value
		}
	}
	return patch
}

// sets reports a patch that does more than take away what was filled in by itself.
func sets(patch map[string]any) bool {
	for _, value := range patch {
		inner, isMap := value.(map[string]any)
		if isMap && sets(inner) || !isMap && value != nil {
			return true
		}
	}
	return false
}
