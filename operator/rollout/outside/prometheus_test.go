package outside

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/prometheus/common/model"
)

// FuzzSamples: of what Prometheus may say only numbers become samples.
func FuzzSamples(f *testing.F) {
	f.Add([]byte(`[{"metric":{},"value":[1,"0.5"]}]`))
	f.Add([]byte(`[{"metric":{"a":"b"},"value":[1e30,"NaN"]},{"metric":null,"value":[-1,"-Inf"]}]`))
	f.Add([]byte(`[{"metric":{},"histogram":[1,{"count":"1","sum":"2"}]}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var v model.Vector
		if json.Unmarshal(text, &v) != nil {
			return
		}
		a := samples(v)
		if a.Message == "" && len(a.Samples) != len(v) {
			t.Fatalf("%d of %d samples", len(a.Samples), len(v))
		}
		for _, s := range a.Samples {
			if _, err := strconv.ParseFloat(s, 64); err != nil {
				t.Fatalf("%q is no number", s)
			}
		}
	})
}
