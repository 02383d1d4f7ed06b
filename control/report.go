package control

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// StatusFault is the key in an object's status that ReportFault writes.
const StatusFault = "fault"

// FaultRecord is the value of that key.
type FaultRecord struct {
	Code    fault.Code  `json:"code"`
	Class   fault.Class `json:"class"`
	Title   string      `json:"title"`
	Remedy  string      `json:"remedy"`
	Message string      `json:"message"`
	Cause   fault.Code  `json:"cause,omitempty"` // the code of the last failure
	// ObservedGeneration is the generation of the spec that failed.
	ObservedGeneration int64     `json:"observedGeneration"`
	At                 time.Time `json:"at"`
}

// ReportFault returns a Controller.Report for objects. It writes the fault into the
// object's status and removes it after the first pass that does not fail, also if an
// earlier process has written it. The rest of the status stays.
func ReportFault(objects Objects, cache *Cache[Object]) func(ctx context.Context, key string, err error) error {
	var written sync.Map // keys whose fault may not be in the cache yet
	return func(ctx context.Context, key string, err error) error {
		if err == nil {
			_, mine := written.Load(key)
			if o, ok := cache.Get(key); !mine && (!ok || !bytes.Contains(o.Status, []byte(`"`+StatusFault+`"`))) {
				return nil
			}
		}
		ref, bad := ParseRef(key)
		if bad != nil {
			return bad
		}
		_, failed := Modify(ctx, objects, ref, func(o *Object) error { return setFault(o, err, time.Now()) })
		if failed != nil && fault.Of(failed) != NotFound {
			return failed
		}
		if err != nil {
			written.Store(key, true)
		} else {
			written.Delete(key)
		}
		return nil
	}
}

func setFault(o *Object, err error, now time.Time) error {
	status := map[string]json.RawMessage{}
	if o.Status != nil {
		if bad := json.Unmarshal(o.Status, &status); bad != nil {
			return Invalid.Errorf("%s: status: %w", o.Ref, bad)
		}
	}
	if err == nil {
		delete(status, StatusFault)
	} else {
		kind := fault.Of(err)
		record := FaultRecord{Code: kind.Code, Class: kind.Class, Title: kind.Title, Remedy: kind.Remedy,
			Message: fault.Message(err), ObservedGeneration: o.Generation, At: now.UTC()}
		if cause, ok := fault.Details(err)["cause"].(string); ok {
			record.Cause = fault.Code(cause)
		}
		raw, bad := json.Marshal(record)
		if bad != nil {
			return bad
		}
		status[StatusFault] = raw
	}
	raw, bad := json.Marshal(status)
	if len(status) == 0 {
		raw = nil
	}
	o.Status = raw
	return bad
}
