package cloudstack

import (
	"maps"
	"net/url"
	"testing"

	"pgregory.net/rapid"
)

// The server must receive the signed values, whatever characters they contain.
func TestWhatIsSentIsWhatWasSigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.MapOf(rapid.StringMatching(`[a-zA-Z]{1,8}(\[[0-9]\]\.key)?`), rapid.String()).Draw(t, "params")
		arrived, err := url.ParseQuery(encode(params))
		if err != nil {
			t.Fatal(err)
		}
		again := map[string]string{}
		for name := range arrived {
			again[name] = arrived.Get(name)
		}
		if !maps.Equal(again, params) {
			t.Errorf("%q arrives as %q", params, again)
		}
	})
}
